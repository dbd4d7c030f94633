"""The gateway of a refit: a child process with the tiers at hand and nothing else of the settings, while it is needed.

It has a home of its own, so that neither the ledger nor the budget of a gateway that serves hears of what is asked; the
registry is the same. It is ended however the block is left, and cannot outlive this process (`serving.engines.tether`).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from serving.bringup.progress import Report
from serving.budget_settings import RouterSettings
from serving.engines.tether import tethered
from serving.settings import GatewaySettings, Settings
from serving.settings_sources import environment_without_settings, to_toml

START_TIMEOUT_S: Final = 900.0
"""Engines have deadlines of their own; a policy may have to be made whole before one starts, and a server that is
somebody else's may never come."""
END_GRACE_S: Final = 20.0
"""After SIGTERM, before SIGKILL."""
QUEUE_TIMEOUT_S: Final = 300.0
"""All that is asked at a time may stand behind one slot."""
NUM_LOG_LINES: Final = 8

_URL: Final = re.compile(r"tierwise serves on (http://\S+)/v1")


class OwnGatewayError(Exception):
    """The gateway did not start; the message has the end of what it said."""


@asynccontextmanager
async def own_gateway(settings: Settings, *, log: Path, report: Report) -> AsyncIterator[str]:
    """The URL of a gateway on these tiers and arms, which is up.

    Args:
        settings: the resolved ones, with the versions of models that are to be asked.
        log: where its standard error goes.
        report: hears what is being started.

    Raises:
        OwnGatewayError: it did not start.
    """
    with tempfile.TemporaryDirectory(prefix="tierwise-refit-") as name, log.open("wb") as errors:
        home = Path(name)
        (home / "registry").symlink_to(settings.home / "registry")
        config = home / "tierwise.toml"
        config.write_text(to_toml(asking(settings, home)), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *tethered(
                (sys.executable, "-P", "-m", "serving", "--config", str(config), "--log-format", "text"),
                os.getpid(),
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=environment_without_settings(),
            start_new_session=True,  # a Ctrl-C at the terminal reaches us alone, and we end it
        )
        try:
            url = await _until_up(process, settings.tiers, log, report)
            draining = asyncio.create_task(_drain(process))
            yield url
        finally:
            await _end(process)
        await draining


def asking(settings: Settings, home: Path) -> Settings:
    """These tiers and arms behind a loopback port, without keys, budget, lots or shadows: each arm by its name."""
    return Settings(
        home=home,
        gateway=GatewaySettings(port=0, drain_s=0.0, queue_timeout_s=QUEUE_TIMEOUT_S),
        tiers=settings.tiers,
        arms=settings.arms,
        router=RouterSettings(artifact="heuristic"),
    )


async def _until_up(process: Process, tiers: Collection[str], log: Path, report: Report) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while read := await process.stdout.readline():
                line = read.decode(errors="replace").rstrip()
                if match := _URL.search(line):
                    return match.group(1)
                if line.partition(":")[0] in tiers:
                    report.say(line)
    except TimeoutError:
        raise OwnGatewayError(f"the tiers were not up within {START_TIMEOUT_S:g} s{_end_of(log)}") from None
    raise OwnGatewayError(f"the gateway did not start{_end_of(log)}")


async def _drain(process: Process) -> None:
    """Read what it says later, so that it never waits for us."""
    assert process.stdout is not None
    while await process.stdout.read(4096):
        pass


async def _end(process: Process) -> None:
    """SIGTERM to it and what stands between, SIGKILL after the grace or when nobody wants to wait any longer."""
    _signal(process, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_GRACE_S):
                await process.wait()
    finally:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-NUM_LOG_LINES:]
    return "".join(f"\n  {line}" for line in lines)
