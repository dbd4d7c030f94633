"""One engine is kept running: started, asked, started again, given up, stopped; with processes that are real."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import psutil
import pytest
import uvloop

from serving.engines import supervisor as supervisor_module
from serving.engines.base import Endpoint, EngineCapabilities, EngineError, Launch
from serving.engines.engine_log import EngineLog
from serving.engines.supervisor import FIRST_BACKOFF_S, HEALTHY_S, STOPPED, Supervisor, free_port

NO_SESSION = cast(aiohttp.ClientSession, None)
READY_THEN_WAIT = "ready(); time.sleep(60)"
PRELUDE = """\
import os, pathlib, signal, subprocess, sys, time
note = pathlib.Path(os.environ["NOTE"])
def ready():
    note.write_text(str(os.getpid()))
"""


class ScriptedEngine:
    """Runs a script a life, the last one again and again; `ready()` in it makes the engine ready."""

    def __init__(
        self, note: Path, *scripts: str, ready_timeout_s: float = 30.0, is_broken: bool = False
    ) -> None:
        self.note = note
        self.is_broken = is_broken
        self.launches: list[Launch] = []
        self._scripts = scripts
        self._ready_timeout_s = ready_timeout_s

    def launch(self, *, tier: str, model: Path | None, port: int) -> Launch:
        self.note.unlink(missing_ok=True)
        script = self._scripts[min(len(self.launches), len(self._scripts) - 1)]
        made = Launch(
            argv=(sys.executable, "-c", PRELUDE + script),
            env={"NOTE": str(self.note)},
            url=f"http://127.0.0.1:{port}",
            api_key=f"key {len(self.launches)}",
            ready_timeout_s=self._ready_timeout_s,
        )
        self.launches.append(made)
        return made

    def endpoints(self) -> tuple[Endpoint, ...]:
        return ()

    async def is_ready(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
        return self.note.exists() and bool(self.note.read_text())

    async def capabilities(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCapabilities:
        if self.is_broken:
            raise EngineError("it speaks another protocol")
        return EngineCapabilities(
            model_id="m",
            context_tokens=1,
            num_slots=1,
            endpoints=frozenset({"chat"}),
            keeps_connections=False,
        )

    @property
    def pid(self) -> int:
        return int(self.note.read_text())


class Watched:
    """A supervisor that runs, and what it told."""

    def __init__(self, engine: ScriptedEngine, log: Path, **extra: Any) -> None:
        self.engine = engine
        self.events: list[tuple[str, str]] = []
        self.waits: list[float] = []
        self.loading: list[float] = []
        self.clock_offset_s = 0.0
        self.task: asyncio.Task[None]
        self.supervisor = Supervisor(
            "full",
            engine,
            model=None,
            log=EngineLog(log),
            environ=extra.pop("environ", os.environ),
            on_ready=self._ready,
            on_down=lambda url, reason: self.events.append((url, reason)),
            on_loading=self.loading.append,
            sleep=self._sleep,
            clock=lambda: time.monotonic() + self.clock_offset_s,
        )

    def _ready(self, endpoint: Endpoint, capabilities: EngineCapabilities) -> None:
        self.events.append(("ready", endpoint.url))
        assert endpoint.keeps_connections == capabilities.keeps_connections

    async def _sleep(self, seconds: float) -> None:
        """Backoffs are noted and not slept."""
        if seconds >= FIRST_BACKOFF_S:
            self.waits.append(seconds)
            seconds = 0.001
        await asyncio.sleep(seconds)

    @property
    def num_ready(self) -> int:
        return sum(name == "ready" for name, _ in self.events)

    @property
    def reasons(self) -> list[str]:
        return [reason for name, reason in self.events if name != "ready"]


Supervise = Callable[..., Any]


@pytest.fixture
def supervise(tmp_path: Path) -> Supervise:
    """Runs a supervisor over an engine of these scripts for the length of a block, and leaves no process."""

    @asynccontextmanager
    async def make(
        *scripts: str, environ: dict[str, str] | None = None, **engine: Any
    ) -> AsyncIterator[Watched]:
        scripted = ScriptedEngine(tmp_path / "note", *scripts, **engine)
        watched = Watched(scripted, tmp_path / "full.log", environ=environ or os.environ)
        watched.task = asyncio.create_task(watched.supervisor.run(NO_SESSION))
        try:
            yield watched
        finally:
            watched.task.cancel()
            await asyncio.wait({watched.task})

    return make


async def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  what is waited for happens in other processes
            await asyncio.sleep(0.01)


async def gone(pid: int) -> bool:
    try:
        await until(lambda: not psutil.pid_exists(pid), 5)
    except TimeoutError:
        return False
    return True


async def test_up_and_down(supervise: Supervise) -> None:
    """An engine that is ready is told of once, with its own endpoint; cancelling stops its process and says so."""
    async with supervise(READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 1)
        pid = watched.engine.pid
        assert psutil.pid_exists(pid)
    assert await gone(pid)
    url = watched.engine.launches[0].url
    assert watched.events == [("ready", url), (url, STOPPED)]
    assert watched.supervisor.num_restarts == 0


async def test_a_killed_engine_is_started_again(supervise: Supervise) -> None:
    """SIGKILL: the reason and the last words are told, and a new process takes over on a port and key of its own."""
    async with supervise("print('serving', flush=True); " + READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 1)
        os.kill(watched.engine.pid, signal.SIGKILL)
        await until(lambda: watched.num_ready == 2)
        assert "killed by SIGKILL" in watched.reasons[0]
        assert "serving" in watched.reasons[0]
        assert watched.supervisor.num_restarts == 1
    first, second = watched.engine.launches
    assert first.url != second.url
    assert first.api_key != second.api_key


async def test_backoff_doubles_and_is_forgotten_after_health(supervise: Supervise) -> None:
    """Each end in a row doubles the wait; a life of `HEALTHY_S` begins the count anew."""
    async with supervise(*["ready(); time.sleep(0.2)"] * 4, READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 5)
        assert watched.waits == [FIRST_BACKOFF_S * 2**i for i in range(4)]
        watched.clock_offset_s += HEALTHY_S
        os.kill(watched.engine.pid, signal.SIGKILL)
        await until(lambda: watched.num_ready == 6)
        assert watched.waits[4:] == [FIRST_BACKOFF_S]


async def test_one_that_never_starts_is_given_up(supervise: Supervise) -> None:
    """After three tries the error tells the tier, the end, and what the last lines mean."""
    async with supervise("sys.exit(\"E srv load_model: failed to load model, 'x.gguf'\")") as watched:
        with pytest.raises(
            EngineError, match=r"full tier does not start: ended with status 1: the model file"
        ) as error:
            await watched.task
    assert "tierwise registry verify" in str(error.value)
    assert len(watched.engine.launches) == 3
    assert watched.events == []


async def test_one_that_has_been_ready_is_never_given_up(supervise: Supervise) -> None:
    """What worked once may work again: later failures to start are tried as long as it takes."""
    async with supervise(READY_THEN_WAIT, *["sys.exit(1)"] * 5, READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 1)
        os.kill(watched.engine.pid, signal.SIGKILL)
        await until(lambda: watched.num_ready == 2)
        assert len(watched.engine.launches) == 7


async def test_loading_for_ever(supervise: Supervise) -> None:
    """A process that does not become ready in its time is ended; meanwhile its loading is reported."""
    async with supervise("time.sleep(60)", ready_timeout_s=30.0) as watched:
        await until(lambda: len(watched.engine.launches) == 1)
        await asyncio.sleep(0.1)
        watched.clock_offset_s += 5
        await until(lambda: bool(watched.loading))
        assert 5 <= watched.loading[0] < 30
        for num in (1, 2, 3):
            await until(lambda num=num: len(watched.engine.launches) == num)
            await asyncio.sleep(0.3)
            watched.clock_offset_s += 30
        with pytest.raises(EngineError, match=r"not ready after 30 s: raise engine\.ready_timeout_s"):
            await watched.task


async def test_an_engine_of_another_kind(supervise: Supervise) -> None:
    """One that is up but does not say what it offers counts as a failed start, with the probe's words."""
    async with supervise(READY_THEN_WAIT, is_broken=True) as watched:
        with pytest.raises(EngineError, match="it speaks another protocol"):
            await watched.task
    assert watched.events == []


async def test_settings_that_cannot_work(supervise: Supervise, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `launch` refuses is not tried again."""

    def refuse(self: ScriptedEngine, **_: Any) -> Launch:
        self.launches.append(cast(Launch, None))
        raise EngineError("no such model")

    monkeypatch.setattr(ScriptedEngine, "launch", refuse)
    async with supervise("") as watched:
        with pytest.raises(EngineError, match=r"^no such model$"):
            await watched.task
    assert len(watched.engine.launches) == 1


async def test_no_secret_is_inherited(supervise: Supervise, tmp_path: Path) -> None:
    """The child sees PATH and its like, and what its launch adds; not the gateway's keys."""
    environ = {**os.environ, "OPENAI_API_KEY": "secret", "TIERWISE_X": "secret"}
    async with supervise(
        "print(sorted(os.environ), flush=True); " + READY_THEN_WAIT, environ=environ
    ) as watched:
        await until(lambda: watched.num_ready == 1)
    said = (tmp_path / "full.log").read_text()
    assert "'PATH'" in said
    assert "'NOTE'" in said
    assert "OPENAI_API_KEY" not in said
    assert "TIERWISE_X" not in said


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", deaf])
print("child", child.pid, flush=True)
ready(); time.sleep(60)
"""


async def test_the_whole_group_ends(
    supervise: Supervise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ignores SIGTERM, and what it started, are killed after the grace."""
    monkeypatch.setattr(supervisor_module, "STOP_GRACE_S", 0.2)
    async with supervise(STUBBORN) as watched:
        await until(lambda: watched.num_ready == 1)
        pid = watched.engine.pid
        await until(lambda: "child" in (tmp_path / "full.log").read_text())
        child = int((tmp_path / "full.log").read_text().split()[1])
        assert psutil.pid_exists(child)
    assert await gone(pid)
    assert await gone(child)


async def test_what_a_dead_engine_left_behind_ends_too(supervise: Supervise, tmp_path: Path) -> None:
    """The engine dies, a child of its lives on: the next start finds it gone."""
    script = (
        "c = subprocess.Popen(['sleep', '60']); print('child', c.pid, flush=True); ready(); time.sleep(0.3)"
    )
    async with supervise(script, READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 2)
        assert await gone(int((tmp_path / "full.log").read_text().split()[1]))


def test_on_the_loop_that_the_gateway_runs_on(supervise: Supervise, tmp_path: Path) -> None:
    """uvloop starts, waits for and stops processes as asyncio does, leftovers included."""
    script = (
        "c = subprocess.Popen(['sleep', '60']); print('child', c.pid, flush=True); ready(); time.sleep(0.3)"
    )

    async def live() -> None:
        async with supervise(script, READY_THEN_WAIT) as watched:
            await until(lambda: watched.num_ready == 2)
            assert "ended with status 0" in watched.reasons[0]
            assert await gone(int((tmp_path / "full.log").read_text().split()[1]))
            pid = watched.engine.pid
        assert await gone(pid)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())


async def test_cancelled_while_stopping(supervise: Supervise, monkeypatch: pytest.MonkeyPatch) -> None:
    """An impatient second cancellation does not leave the process behind."""
    monkeypatch.setattr(supervisor_module, "STOP_GRACE_S", 30.0)
    async with supervise("signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 1)
        pid = watched.engine.pid
        watched.task.cancel()
        await asyncio.sleep(0.1)
        assert psutil.pid_exists(pid)
        watched.task.cancel()
        await asyncio.wait({watched.task}, timeout=5)
        assert watched.task.done()
        assert await gone(pid)


async def test_a_terminal_interrupt_does_not_reach_the_engine(supervise: Supervise) -> None:
    """Ctrl-C goes to the foreground process group; an engine leads a session of its own."""
    async with supervise(READY_THEN_WAIT) as watched:
        await until(lambda: watched.num_ready == 1)
        assert os.getpgid(watched.engine.pid) == watched.engine.pid
        assert os.getsid(watched.engine.pid) != os.getsid(0)


async def test_a_program_that_is_not_there(supervise: Supervise, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what could not be started."""
    monkeypatch.setattr(supervisor_module, "tethered", lambda argv, parent: ("/nowhere/python", *argv))
    async with supervise("") as watched:
        with pytest.raises(EngineError, match=r"full tier cannot be started: .*/nowhere/python"):
            await watched.task


def test_free_ports_are_free() -> None:
    """A port that was handed out can be listened on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
