"""`tierwise bench gateway` as it is called."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
import tomli_w

from loadtests.gateway_bench import main
from loadtests.gateway_options import parse_options
from loadtests.gateway_process import gateway_config, mock_upstream
from serving.settings import Settings

MakeGateway = Callable[..., Any]
SHORT = [
    "--rate",
    "40",
    "--duration",
    "1.2",
    "--block",
    "0.2",
    "--warmup",
    "0.2",
    "--ttft-ms",
    "10",
    "--itl-ms",
    "2",
]


@pytest.fixture
def upstream_url(tmp_path: Path) -> Iterator[str]:
    with mock_upstream(ttft_ms=10.0, itl_ms=2.0, num_tokens=20, directory=tmp_path) as (url, _):
        yield url


async def bench(gateway_url: str, upstream_url: str, *argv: str) -> int:
    """Run the command in a thread, as it brings its own event loop."""
    urls = ["--url", gateway_url, "--upstream-url", upstream_url]
    return await asyncio.to_thread(main, [*SHORT, *urls, *argv])


async def test_a_slow_gateway_is_measured(
    stand_in_gateway: MakeGateway, upstream_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that waits 20 ms before it forwards adds 20 ms to everything but the gaps between tokens."""
    async with stand_in_gateway(upstream_url, delay_s=0.02) as url:
        assert await bench(url, upstream_url, "--json", "--pid", str(os.getpid())) == 0
    report = orjson.loads(capsys.readouterr().out)
    added_s = {measure["name"]: measure["added_s"]["p50"] for measure in report["measures"]}
    for name in ("whole_e2e", "stream_ttft", "stream_token_lateness", "stream_e2e"):
        assert 0.019 < added_s[name]["value"] < 0.06, (name, added_s)
        assert added_s[name]["low"] <= added_s[name]["value"] <= added_s[name]["high"]
    assert abs(added_s["stream_itl"]["value"]) < 0.005
    lanes = report["lanes"]
    assert lanes["direct"]["num_requests"] == lanes["gateway"]["num_requests"] > 20
    assert lanes["gateway"]["tiers"] == {"fast": lanes["gateway"]["num_requests"]}
    assert report["gateway"]["cpu_s_per_request"] > 0
    assert report["machine"]["num_cores"] >= 1
    assert report["shape"]["rate"] == 40
    assert "json" not in report["shape"]


async def test_the_table_is_for_people(
    stand_in_gateway: MakeGateway, upstream_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Machine, shape, lanes and measures."""
    async with stand_in_gateway(upstream_url) as url:
        assert await bench(url, upstream_url, "--stream-share", "1") == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("Python 3.", "rate 40", "stream: TTFT", "added", "load generator"))
    assert "whole answer" not in text


async def test_failures_are_status_1(
    stand_in_gateway: MakeGateway, upstream_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And named: here a gateway that is not there."""
    assert await bench("http://127.0.0.1:9", upstream_url) == 1
    assert "cannot connect" in capsys.readouterr().out


def test_an_upstream_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "http://127.0.0.1:9", "--upstream-url", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err.startswith("tierwise bench gateway: cannot connect")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["--url", "http://x"], "--url and --upstream-url belong together"),
        (["--pid", "1"], "--pid belongs to --url"),
        (["--rate", "0"], "not above 0"),
        (["--rate", "fast"], "no number"),
        (["--stream-share", "1.5"], "not in [0, 1]"),
        (["--tokens", "0"], "not at least 1"),
        (["--arrivals", "bursty"], "invalid choice"),
    ],
)
def test_wrong_use_is_refused(capsys: pytest.CaptureFixture[str], argv: list[str], hint: str) -> None:
    """Status 2 and what is wrong."""
    with pytest.raises(SystemExit) as refusal:
        main(argv)
    assert refusal.value.code == 2
    assert hint in capsys.readouterr().err


def test_blocks_rest_as_long_as_a_stream_lasts() -> None:
    """50 ms and 20 tokens of 10 ms, and a tenth of a second."""
    assert parse_options([]).shape.rest_s == pytest.approx(0.35)


def test_the_gateways_configuration_is_one(tmp_path: Path) -> None:
    """What is written for the gateway under test, its own settings accept: two tiers, the router choosing."""
    path = tmp_path / "gateway.toml"
    path.write_text(tomli_w.dumps(gateway_config("http://127.0.0.1:9")))
    settings = Settings.model_validate(tomllib.loads(path.read_text()))
    assert [arm.name for arm in settings.resolved_arms] == ["fast", "full"]


def test_the_real_gateway_is_started_measured_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --url: gateway and mock come up, every request is answered, and nothing is left running."""
    assert main([*SHORT, "--json"]) == 0
    report = orjson.loads(capsys.readouterr().out)
    assert report["lanes"]["gateway"]["num_requests"] > 20
    assert report["lanes"]["gateway"]["num_errors"] == 0
    assert sum(report["lanes"]["gateway"]["tiers"].values()) == report["lanes"]["gateway"]["num_requests"]
    assert report["gateway"]["rss_after_bytes"] > 2**20
    assert report["generator"]["upstream_cpu_share"] is not None
    assert psutil.Process().children() == []


@pytest.mark.parametrize(
    ("number", "is_background"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_a_signal_leaves_no_process(number: signal.Signals, is_background: bool) -> None:
    """In the middle of the load, also of a background job; the status is that of an interrupted command."""
    command = [sys.executable, "-m", "tierwise", "bench", "gateway", "--rate", "5", "--duration", "60"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_background else None
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        children: list[psutil.Process] = []
        deadline_s = time.monotonic() + 20
        while len(children) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.05)
            children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2
        time.sleep(1.5)
        process.send_signal(number)
        assert process.wait(20) == 130, process.stderr and process.stderr.read()
        assert not [child for child in children if child.is_running()]
    finally:
        process.kill()
        process.communicate()
