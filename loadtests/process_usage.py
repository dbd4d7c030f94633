"""What a process and its descendants have used: CPU seconds since they began, and memory now.

Read from `/proc` on Linux (CPU in clock ticks, a hundredth of a second as a rule), elsewhere from `ps`.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """CPU and memory of a process tree."""

    cpu_s: float
    """User and system time of all threads. What ended children used is not in it."""
    rss_bytes: int


def process_usage(pid: int) -> Usage:
    """What `pid` and its living descendants use.

    Raises:
        ProcessLookupError: there is no such process.
    """
    processes = _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()
    tree = _tree(pid, processes)
    if not tree:
        raise ProcessLookupError(f"no process {pid}")
    return Usage(cpu_s=sum(p.cpu_s for p in tree), rss_bytes=sum(p.rss_bytes for p in tree))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    pid: int
    parent: int
    cpu_s: float
    rss_bytes: int


def _tree(root: int, processes: list[_Process]) -> list[_Process]:
    """`root`, if it lives, and everything below it."""
    members = [process for process in processes if process.pid == root]
    for member in members:  # grows while it is walked: breadth first
        members += [process for process in processes if process.parent == member.pid]
    return members


def _from_proc() -> list[_Process]:
    stats = (_read_stat(entry) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [_parse_stat(stat) for stat in stats if stat]


def _read_stat(entry: Path) -> str:
    try:
        return (entry / "stat").read_text(errors="replace")
    except OSError:
        return ""  # it ended meanwhile


def _parse_stat(stat: str) -> _Process:
    """proc_pid_stat(5). The name in parentheses may hold spaces and parentheses, so fields count from its end."""
    pid, _, rest = stat.partition(" ")
    fields = rest.rpartition(")")[2].split()  # fields[0] is field 3
    ticks = int(fields[11]) + int(fields[12])
    return _Process(
        pid=int(pid),
        parent=int(fields[1]),
        cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
        rss_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    )


def _from_ps() -> list[_Process]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,rss=,time="], check=True, capture_output=True, text=True
    ).stdout
    return [_parse_ps(line) for line in listing.splitlines()]


def _parse_ps(line: str) -> _Process:
    pid, parent, rss_kib, clock = line.split()
    return _Process(pid=int(pid), parent=int(parent), cpu_s=_ps_seconds(clock), rss_bytes=int(rss_kib) * 1024)


def _ps_seconds(text: str) -> float:
    """`[[dd-]hh:]mm:ss[.cc]` as seconds."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86_400 * int(days or 0)
