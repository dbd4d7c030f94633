"""Which job is next, and when one gives way. Pure: no clock, no file.

Priorities come first. Among jobs of one priority those come first whose deadline is at risk, the earliest ahead; then
the owner who has had the least time; then the earlier deadline; then who came first. A deadline is at risk when the
time to it is less than what the job still takes and a margin; before its first step a job's rate is unknown, and it
gets a turn at once to show it. A deadline that has passed helps no job any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from train.scheduler.job import Entry

MARGIN: Final = 1.25
"""A deadline is at risk when less than so many times the remaining time is left."""
MEMORY_S: Final = 86_400.0
"""A job that is over counts for its owner's share so long: a newcomer catches up with a day, not with all the past."""


def used_by_owner(entries: Iterable[Entry], now_s: float) -> dict[str, float]:
    """Seconds that each owner's jobs held slots: of jobs that are open, or that were not long ago."""
    used: dict[str, float] = defaultdict(float)
    for entry in entries:
        if entry.is_open or now_s - entry.progress.written_s < MEMORY_S:
            used[entry.job.owner] += entry.progress.used_s
    return used


def is_urgent(entry: Entry, now_s: float) -> bool:
    """Whether its deadline is at risk."""
    deadline = entry.job.deadline_s
    if deadline is None or deadline <= now_s:
        return False
    remaining = entry.progress.remaining_s
    return remaining is None or deadline - now_s < MARGIN * remaining


def ordered(entries: Iterable[Entry], used: Mapping[str, float], now_s: float) -> list[Entry]:
    """The entries, the next first."""

    def place(entry: Entry) -> tuple[float | bool | str, ...]:
        job, urgent = entry.job, is_urgent(entry, now_s)
        deadline = inf if job.deadline_s is None or job.deadline_s <= now_s else job.deadline_s
        first = deadline if urgent else used.get(job.owner, 0.0)
        return (-job.priority, not urgent, first, deadline, job.added_s, job.id)

    return sorted(entries, key=place)


def next_entry(entries: Sequence[Entry], now_s: float) -> Entry | None:
    """What a free slot should run; None where every open job is held."""
    free = [entry for entry in entries if entry.is_open and not entry.is_held]
    return ordered(free, used_by_owner(entries, now_s), now_s)[0] if free else None


def gives_way(
    running: Entry, entries: Sequence[Entry], *, turn_s: float, quantum_s: float, now_s: float
) -> bool:
    """Whether a running job should stop at this border for one that waits.

    At once for a higher priority, or an urgent job where it is not urgent itself; for its equals when its turn is over.
    Where several slots run, only the last in order gives way, so that one arrival stops one job.

    Args:
        running: as it was when its turn began.
        entries: all jobs now, this one included and held.
        turn_s: how long its turn has lasted.
        quantum_s: how long a turn is among equals.
        now_s: seconds since the epoch.
    """
    waiting = next_entry(entries, now_s)
    if waiting is None:
        return False
    used = used_by_owner(entries, now_s)
    used[running.job.owner] = used.get(running.job.owner, 0.0) + turn_s
    held = [entry for entry in entries if entry.is_open and entry.is_held and entry.job.id != running.job.id]
    if held and ordered([*held, running], used, now_s)[-1] is not running:
        return False
    if waiting.job.priority != running.job.priority:
        return waiting.job.priority > running.job.priority
    if is_urgent(waiting, now_s) != is_urgent(running, now_s):
        return is_urgent(waiting, now_s)
    return turn_s >= quantum_s and ordered([running, waiting], used, now_s)[0] is waiting
