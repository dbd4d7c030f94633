"""Processes that a load test starts: each ended by its own id when its `with` block is left, however it is left."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

STOP_GRACE_S = 5.0
"""After SIGTERM, before SIGKILL."""


class ChildError(Exception):
    """A process did not come up; the message carries the end of its log."""


@contextlib.contextmanager
def child_process(
    argv: Sequence[str], *, log: Path, pipes_stdout: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` in a process group of its own, its output to `log`; standard output to a pipe where asked for.

    A Ctrl-C at the terminal therefore reaches the load test alone, which then ends the group.
    """
    with log.open("wb") as output:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes_stdout else output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        end_group(child)


def end_group(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the child's group, SIGKILL to what is left of it after the grace, and reap the child."""
    _signal_group(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(STOP_GRACE_S)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def first_line(child: subprocess.Popen[bytes], *, name: str, log: Path, timeout_s: float) -> bytes:
    """The first line of the piped standard output.

    Raises:
        ChildError: it ended, or said nothing within `timeout_s`.
    """
    assert child.stdout is not None
    line = b""
    deadline_s = time.monotonic() + timeout_s
    while not line.endswith(b"\n"):
        is_readable, _, _ = select.select([child.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
        read = os.read(child.stdout.fileno(), 4096) if is_readable else b""
        if not read:
            raise ChildError(f"{name} did not come up{log_tail(log)}")
        line += read
    return line.partition(b"\n")[0]


def log_tail(log: Path, num_lines: int = 15) -> str:
    """The last lines of a log, for an error message; empty where there is none."""
    lines = log.read_text(errors="replace").splitlines()[-num_lines:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
