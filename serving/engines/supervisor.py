"""Keeps one engine running: starts its process, waits until it is ready, starts it again when it ends, stops it.

Nothing here knows an engine: `Launch` says what to run, `is_ready` and `capabilities` how to ask. The process leads a
group of its own, so that a terminal's Ctrl-C reaches the supervisor alone, and the whole group ends with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp

from serving.engines.base import Endpoint, Engine, EngineCapabilities, EngineError, Launch
from serving.engines.crash import describe_end
from serving.engines.engine_log import Capture, EngineLog
from serving.engines.tether import tethered

READY_POLL_S: Final = 0.05
LOADING_REPORT_S: Final = 1.0
STOP_GRACE_S: Final = 5.0
"""After SIGTERM, before SIGKILL."""
FIRST_BACKOFF_S: Final = 0.25
MAX_BACKOFF_S: Final = 30.0
HEALTHY_S: Final = 30.0
"""An engine that ran this long is started again at once, as if it had never failed."""
STOPPED: Final = "stopped"
"""What `on_down` is told where the supervisor itself ended the engine."""
MAX_FAILED_STARTS: Final = 3
"""An engine that never became ready is given up after so many tries."""
KEPT_VARIABLES: Final = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "VIRTUAL_ENV",
    }
    | {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
)
"""What an engine sees of the caller's environment: no key, no password."""


class _NotReady(Exception):  # noqa: N818  an outcome of a start, never seen outside
    pass


class Supervisor:
    """Runs one tier's engine.

    Args:
        tier: its name, for messages and the log file.
        engine: how it is launched and probed.
        model: the model's file.
        log: where its output goes.
        environ: the caller's environment, of which `KEPT_VARIABLES` are passed on.
        on_ready: told where the engine listens and what it offers, each time that it has come up.
        on_down: told the URL of an engine that was ready and has ended, and why.
        on_loading: told, about once a second, for how many seconds the engine has been loading.
        sleep: waits; another one in tests.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        tier: str,
        engine: Engine,
        *,
        model: Path | None,
        log: EngineLog,
        environ: Mapping[str, str],
        on_ready: Callable[[Endpoint, EngineCapabilities], None],
        on_down: Callable[[str, str], None],
        on_loading: Callable[[float], None] = lambda elapsed_s: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float],
    ) -> None:
        self._tier = tier
        self._engine = engine
        self._model = model
        self._log = log
        self._environ = {name: value for name, value in environ.items() if name in KEPT_VARIABLES}
        self._on_ready = on_ready
        self._on_down = on_down
        self._on_loading = on_loading
        self._sleep = sleep
        self._clock = clock
        self._has_been_ready = False
        self.num_restarts = 0

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Keep the engine running until this is cancelled; then it has been stopped.

        Raises:
            EngineError: it failed `MAX_FAILED_STARTS` times without ever having been ready.
        """
        backoff_s = FIRST_BACKOFF_S
        num_failed = 0
        while True:
            began = self._clock()
            reason = await self._run_once(session)
            if not self._has_been_ready:
                num_failed += 1
                if num_failed >= MAX_FAILED_STARTS:
                    raise EngineError(f"the engine of the {self._tier} tier does not start: {reason}")
            backoff_s = FIRST_BACKOFF_S if self._clock() - began >= HEALTHY_S else backoff_s
            await self._sleep(backoff_s)
            backoff_s = min(MAX_BACKOFF_S, 2 * backoff_s)
            self.num_restarts += 1

    async def _run_once(self, session: aiohttp.ClientSession) -> str:
        """One life of the process; returns why it ended."""
        launch = await asyncio.to_thread(
            self._engine.launch, tier=self._tier, model=self._model, port=free_port()
        )
        assert launch is not None, "an external engine has no process to supervise"
        endpoint = Endpoint(url=launch.url, api_key=launch.api_key)
        capture = await self._log.capture()
        process = await self._start(launch, capture)
        is_up = False
        fault = ""
        try:
            capabilities = await self._until_ready(session, endpoint, launch, process)
            is_up = True
            self._has_been_ready = True
            endpoint = replace(endpoint, keeps_connections=capabilities.keeps_connections)
            self._on_ready(endpoint, capabilities)
            await process.wait()
        except _NotReady as error:
            fault = str(error)
        except asyncio.CancelledError:
            fault = STOPPED
            raise
        finally:
            await _stop(process)
            await capture.finish()
            reason = fault or describe_end(process.returncode, self._log.tail)
            if is_up:
                self._on_down(endpoint.url, reason)
        return reason

    async def _start(self, launch: Launch, capture: Capture) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *tethered(launch.argv, os.getpid()),
                env=self._environ | dict(launch.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=capture.write_end,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"the engine of the {self._tier} tier cannot be started: {error}") from error
        finally:
            capture.started()

    async def _until_ready(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        launch: Launch,
        process: asyncio.subprocess.Process,
    ) -> EngineCapabilities:
        """What the engine offers, once it is ready.

        Raises:
            _NotReady: its process ended, or its time did; without words where the process's end says why.
        """
        began = self._clock()
        told = 0.0
        while process.returncode is None:
            if await self._engine.is_ready(session, endpoint):
                try:
                    return await self._engine.capabilities(session, endpoint)
                except EngineError as error:
                    raise _NotReady("" if await _has_ended(process) else str(error)) from error
            elapsed_s = self._clock() - began
            if elapsed_s >= launch.ready_timeout_s:
                raise _NotReady(
                    f"not ready after {launch.ready_timeout_s:g} s: raise engine.ready_timeout_s, or see its log"
                )
            if elapsed_s - told >= LOADING_REPORT_S:
                told = elapsed_s
                self._on_loading(elapsed_s)
            await self._sleep(READY_POLL_S)
        raise _NotReady


def free_port() -> int:
    """A loopback port that is free now. Where another takes it meanwhile, the engine's next start gets a new one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    """Whether the process has ended, or does so in the next second: a connection breaks before its death is known."""
    try:
        async with asyncio.timeout(1.0):
            await process.wait()
    except TimeoutError:
        return False
    return True


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the process group: SIGTERM, `STOP_GRACE_S`, SIGKILL. Also when this is cancelled meanwhile."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            _signal_group(process.pid, signal.SIGKILL)
    await process.wait()
    _signal_group(process.pid, signal.SIGKILL)  # what the engine may have started and left


def _signal_group(pid: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signum)
