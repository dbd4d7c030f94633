"""What code in a sandbox may use, and what came of running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run. All hold for it and everything that it starts, together, but where it says otherwise."""

    wall_s: float = 5.0
    cpu_s: int = 10
    """For each process, the kernel's own limit; what remains should all else fail."""
    memory_bytes: int = 256 << 20
    """Of address space; 256 MiB hold a Python interpreter four times over."""
    max_processes: int = 8
    max_file_bytes: int = 16 << 20
    """For each file."""
    max_disk_bytes: int = 64 << 20
    max_files: int = 2_000
    max_output_bytes: int = 64 << 10
    """Of standard output, and as much of standard error; what follows is dropped."""


class Ended(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    """Killed for asking for more memory. An interpreter that met its limit and raised has `EXITED`."""
    DISK = "disk"
    """Killed for more bytes or files than it may write."""
    KILLED = "killed"
    """By a signal, its own or the kernel's."""


@dataclass(frozen=True, slots=True)
class Case:
    """One start of a command on the files."""

    argv: Sequence[str]
    """A first `python3` is the interpreter that the sandbox has; no shell reads the rest."""
    stdin: bytes | str = b""


@dataclass(frozen=True, slots=True)
class Run:
    """What a case came to."""

    stdout: str
    """Bytes that are not UTF-8 are replaced, for a policy may read this."""
    stderr: str
    exit_code: int | None
    """None where it did not exit."""
    ended: Ended
    seconds: float
    """Wall clock, start of the process included."""
    is_cut: bool = False
    """Whether it said more than was kept."""

    @property
    def is_ok(self) -> bool:
        """Whether it exited with 0."""
        return self.ended is Ended.EXITED and self.exit_code == 0
