"""Processes that a load test starts end with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadtests import child_process as child_process_module
from loadtests.child_process import ChildError, child_process, first_line


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def is_alive(pid: int) -> bool:
    """Whether `pid` runs; an orphan that nobody reaps yet does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def test_the_child_ends_with_its_block(tmp_path: Path) -> None:
    """Also when the block is left by an exception, which goes on."""
    with pytest.raises(KeyboardInterrupt), child_process(python("input"), log=tmp_path / "log"):
        raise KeyboardInterrupt
    with child_process(python("import time; time.sleep(60)"), log=tmp_path / "log") as child:
        assert child.poll() is None
    assert child.returncode == -15


def test_the_whole_group_ends(tmp_path: Path) -> None:
    """A grandchild too, and one that ignores SIGTERM is killed after the grace."""
    code = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(grandchild.pid, flush=True)
time.sleep(60)
"""
    grace = pytest.MonkeyPatch()
    grace.setattr(child_process_module, "STOP_GRACE_S", 0.2)
    with grace.context(), child_process(python(code), log=tmp_path / "log", pipes_stdout=True) as child:
        grandchild = int(first_line(child, name="it", log=tmp_path / "log", timeout_s=10))
        assert is_alive(grandchild)
    grace.undo()
    assert child.returncode == -9
    deadline_s = time.monotonic() + 5
    while is_alive(grandchild) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not is_alive(grandchild)


def test_a_child_that_ended_by_itself_is_no_error(tmp_path: Path) -> None:
    with child_process(python("print(1)"), log=tmp_path / "log") as child:
        child.wait(10)
    assert (tmp_path / "log").read_text() == "1\n"


def test_a_child_that_does_not_come_up_shows_its_log(tmp_path: Path) -> None:
    """Whether it ends or keeps silent."""
    log = tmp_path / "log"
    code = "import sys; sys.exit('no such upstream')"
    with (
        child_process(python(code), log=log, pipes_stdout=True) as child,
        pytest.raises(ChildError, match="the mock did not come up\n  no such upstream"),
    ):
        first_line(child, name="the mock", log=log, timeout_s=10)
    with (
        child_process(python("import time; time.sleep(60)"), log=log, pipes_stdout=True) as child,
        pytest.raises(ChildError, match="did not come up"),
    ):
        first_line(child, name="the mock", log=log, timeout_s=0.05)


def test_the_first_line_is_whole(tmp_path: Path) -> None:
    """Though it comes in pieces, and more may follow."""
    code = "import sys, time; w = sys.stdout; w.write('ab'); w.flush(); time.sleep(0.1); w.write('c\\nd\\n'); w.flush()"
    with child_process(python(code), log=tmp_path / "log", pipes_stdout=True) as child:
        assert first_line(child, name="it", log=tmp_path / "log", timeout_s=10) == b"abc"
        assert isinstance(child, subprocess.Popen)
