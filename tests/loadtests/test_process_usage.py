"""CPU and memory of processes, against what the processes themselves say."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from loadtests.process_usage import _from_ps, _parse_ps, _parse_stat, _tree, process_usage


def test_usage_is_what_the_process_spent() -> None:
    """CPU against the process's own clock, memory against psutil."""
    spin = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        usage = process_usage(process.pid)
        assert usage.cpu_s == pytest.approx(0.4, abs=0.06)
        assert usage.rss_bytes == pytest.approx(psutil.Process(process.pid).memory_info().rss, rel=0.2)
    finally:
        process.communicate()


def test_children_count_while_they_live() -> None:
    """A process tree is measured as one."""
    alone = process_usage(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        deadline_s = time.monotonic() + 5
        while process_usage(child.pid).rss_bytes < 4 * 2**20 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert process_usage(os.getpid()).rss_bytes > alone.rss_bytes + 2 * 2**20
    finally:
        child.communicate()


def test_a_process_that_is_not_there_is_an_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(ProcessLookupError, match=str(child.pid)):
        process_usage(child.pid)


def test_a_name_with_parentheses_does_not_shift_the_fields() -> None:
    """proc_pid_stat(5): utime is field 14, stime 15, rss 24 in pages; the name is whatever the process likes."""
    fields = ["S", "41", *["0"] * 9, "150", "50", *["0"] * 8, "3", *["0"] * 20]
    process = _parse_stat(f"42 (a ) (b) {' '.join(fields)}")
    assert (process.pid, process.parent) == (42, 41)
    assert process.cpu_s == 200 / os.sysconf("SC_CLK_TCK")
    assert process.rss_bytes == 3 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("00:00:07", 7.0), ("0:01.25", 1.25), ("01:02:03", 3723.0), ("2-00:00:01", 172801.0)],
)
def test_ps_tells_time_in_many_forms(clock: str, seconds: float) -> None:
    """GNU's `[dd-]hh:mm:ss`, and `m:ss.cc` of the BSDs."""
    process = _parse_ps(f" 42  1  2048 {clock}")
    assert (process.pid, process.parent, process.rss_bytes) == (42, 1, 2048 * 1024)
    assert process.cpu_s == pytest.approx(seconds)


def test_ps_finds_this_process_too() -> None:
    """The way for systems without /proc works here as well."""
    (itself, *_) = _tree(os.getpid(), _from_ps())
    assert itself.parent == os.getppid()
    assert itself.rss_bytes > 2**20
