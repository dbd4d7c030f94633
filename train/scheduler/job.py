"""A job: a recipe that somebody wants run, how much it matters, and how far it has come. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class JobStatus(StrEnum):
    """Where a job is. `waiting` and `running` are open: there is something left to do."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = frozenset({JobStatus.WAITING, JobStatus.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was asked for; never changes."""

    id: str
    recipe: Mapping[str, Any]
    """Resolved, as JSON."""
    priority: int = 0
    """More is sooner."""
    owner: str = "default"
    """Among equal priorities every owner gets an equal share of time."""
    deadline_s: float | None = None
    """Seconds since the epoch."""
    added_s: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job has come; whoever runs it writes it."""

    status: JobStatus = JobStatus.WAITING
    num_done: int = 0
    """Steps."""
    num_steps: int = 0
    used_s: float = 0.0
    """Time that it held a slot."""
    written_s: float = 0.0
    """When this was written; seconds since the epoch."""
    num_preemptions: int = 0
    detail: str = ""
    """Why it failed."""

    @property
    def remaining_s(self) -> float | None:
        """By its rate so far; None before its first step."""
        if not self.num_done:
            return None
        return self.used_s / self.num_done * (self.num_steps - self.num_done)


@dataclass(frozen=True, slots=True)
class Entry:
    """A job as it stands."""

    job: Job
    progress: Progress
    is_held: bool
    """By a slot, now. A job that is `running` and not held lost its process; it goes on from its checkpoint."""

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do."""
        return self.progress.status in OPEN
