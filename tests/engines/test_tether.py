"""A tethered process ends when its parent does, whichever way that happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from serving.engines.tether import tethered

PARENT = """
import os, subprocess, sys, time
from serving.engines.tether import tethered
child = subprocess.Popen({command}, start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""
SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
WATCH = "import sys; from serving.engines.tether import watch; watch(int(sys.argv[1]), sys.argv[2:], interval_s=0.02)"


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    give_up = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.02)
    return condition()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def with_parent(command: str) -> tuple[subprocess.Popen[str], int]:
    """A process that started `command`, and the command's process id."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(command=command)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def kill(parent: subprocess.Popen[str]) -> None:
    parent.kill()
    parent.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's")
def test_kill_9_of_the_parent() -> None:
    """The parent dies without a chance to clean up; the child, which had become another program, dies too."""
    parent, pid = with_parent(f"tethered({SLEEP!r}, os.getpid())")
    try:
        assert wait_until(lambda: "time.sleep" in " ".join(psutil.Process(pid).cmdline()))
        assert not is_gone(pid)
    finally:
        kill(parent)
    assert wait_until(lambda: is_gone(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's")
def test_a_parent_that_is_gone_already(tmp_path: Path) -> None:
    """Between fork and tether the parent may die: then the command is never run."""
    mark = tmp_path / "ran"
    finished = subprocess.run(
        tethered((sys.executable, "-c", f"open({str(mark)!r}, 'w')"), parent=1),
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 1
    assert "the supervisor has ended already" in finished.stderr
    assert not mark.exists()


def test_environment_and_arguments_pass_through() -> None:
    """The command is what it would be without a tether."""
    script = "import os, sys; print(os.environ['NAME'], sys.argv[1:])"
    finished = subprocess.run(
        tethered((sys.executable, "-c", script, "--flag", "two words"), os.getpid()),
        env={**os.environ, "NAME": "value"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout == "value ['--flag', 'two words']\n"


def watched(script: str) -> list[str]:
    return [sys.executable, "-c", WATCH, str(os.getpid()), sys.executable, "-c", script]


def test_watching_ends_the_group_with_the_parent(tmp_path: Path) -> None:
    """Where the kernel does not help, a watcher notices that it has been inherited, and kills the group."""
    note = tmp_path / "pid"
    script = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    command = f"[{sys.executable!r}, '-c', {WATCH!r}, str(os.getpid()), {sys.executable!r}, '-c', {script!r}]"
    parent, watcher = with_parent(command)
    try:
        assert wait_until(lambda: note.exists() and bool(note.read_text()))
    finally:
        kill(parent)
    child = int(note.read_text())
    assert wait_until(lambda: is_gone(watcher) and is_gone(child))


@pytest.mark.parametrize(
    ("script", "returncode"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9), ("pass", 0)],
)
def test_watching_ends_as_the_command_does(script: str, returncode: int) -> None:
    """Exit status and signal reach the supervisor as they are."""
    assert subprocess.run(watched(script)).returncode == returncode


def test_watching_waits_for_an_orderly_end() -> None:
    """SIGTERM to the group gives the command its time; the watcher does not run ahead."""
    script = (
        "import signal, sys, time\n"
        "def end(*_): time.sleep(0.3); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(watched(script), stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate()
    assert process.returncode == 5
