"""The processes of `bench gateway`: a mock upstream, and a gateway with two external tiers on it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import orjson
import tomli_w

from loadtests.child_process import ChildError, child_process, first_line, log_tail
from loadtests.fetch import FetchError, fetch
from loadtests.mock_answers import MODEL

READY_TIMEOUT_S = 30.0
NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({})


@contextlib.contextmanager
def mock_upstream(
    *, ttft_ms: float, itl_ms: float, num_tokens: int, directory: Path
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A mock upstream's URL and process.

    Raises:
        ChildError: it did not start.
    """
    argv = [sys.executable, "-m", "loadtests.mock_upstream", "--port", "0", "--ttft-ms", str(ttft_ms)]
    argv += ["--itl-ms", str(itl_ms), "--tokens", str(num_tokens)]
    log = directory / "mock.log"
    with child_process(argv, log=log, pipes_stdout=True) as child:
        line = first_line(child, name="the mock upstream", log=log, timeout_s=READY_TIMEOUT_S)
        yield orjson.loads(line)["url"], child


@contextlib.contextmanager
def gateway(
    *, upstream_url: str, directory: Path, settings: Mapping[str, Any] = NO_SETTINGS
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A gateway's URL and process; routing and ledger on, its home below `directory`. Await `until_ready` next.

    Args:
        settings: nodes of the configuration beside gateway and tiers.

    Raises:
        ChildError: it did not start.
    """
    config = directory / "gateway.toml"
    config.write_text(tomli_w.dumps(gateway_config(upstream_url) | settings))
    port = free_port()
    argv = [sys.executable, "-m", "serving", "--config", str(config), "--port", str(port)]
    argv += ["--home", str(directory / "home")]
    with child_process(argv, log=directory / "gateway.log") as child:
        yield f"http://127.0.0.1:{port}", child


def gateway_config(upstream_url: str) -> dict[str, Any]:
    """The gateway's TOML: a cheap and a dear tier, both at the mock, wide enough never to queue."""

    def tier(price_in: float, price_out: float) -> dict[str, Any]:
        return {
            "engine": {"type": "external", "urls": [upstream_url], "model": MODEL},
            "price": {"input": price_in, "output": price_out},
            "max_in_flight": 4096,
        }

    return {"gateway": {"host": "127.0.0.1"}, "tiers": {"fast": tier(0.2, 0.8), "full": tier(1.0, 4.0)}}


async def until_ready(url: str, *, child: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for 200 from `/readyz`.

    Raises:
        ChildError: the process ended, or was not ready in time.
    """
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if child.poll() is not None:
            raise ChildError(f"the gateway ended with status {child.returncode}{log_tail(log)}")
        with contextlib.suppress(FetchError):
            if (await fetch(f"{url}/readyz", timeout_s=2.0)).status == 200:
                return
        await asyncio.sleep(0.1)
    raise ChildError(f"the gateway was not ready within {READY_TIMEOUT_S:g} s{log_tail(log)}")


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
