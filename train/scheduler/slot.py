"""A slot runs one job at a time, always the one that is next, and lets it give way at its borders.

A slot is a process, or a part of one; several on one queue share its jobs out by locks. What a job raises ends that
job, and the slot goes on with the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from train.scheduler.job import Entry, Job, JobStatus
from train.scheduler.order import gives_way, next_entry
from train.scheduler.queue_directory import Queue
from train.scheduler.turns import Turn

QUANTUM_S: Final = 300.0
"""A turn among equals: long beside the seconds that it takes to put a run together."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A step that a job has done; an evaluation has none of its own seconds."""

    num_done: int
    num_steps: int
    seconds: float


class RunJob(Protocol):
    """Runs a job from where it is until its end or until it is told to stop, which it asks at every border."""

    def __call__(
        self,
        recipe: Mapping[str, Any],
        path: Path,
        *,
        on_tick: Callable[[Tick], None],
        is_stopping: Callable[[], bool],
    ) -> bool:
        """Whether it came to its end."""
        ...


class Slot:
    """One slot of a queue.

    Args:
        queue: whose jobs.
        run_job: how one is run.
        name: of the slot; unique among those on the queue at once.
        quantum_s: a turn among equals.
        clock: seconds since the epoch.
        is_told: asked at every border; once true, the job is saved and the slot is left.
    """

    def __init__(
        self,
        queue: Queue,
        run_job: RunJob,
        *,
        name: str = "0",
        quantum_s: float = QUANTUM_S,
        clock: Callable[[], float] = time.time,
        is_told: Callable[[], bool] = lambda: False,
    ) -> None:
        self._queue = queue
        self._run_job = run_job
        self._name = name
        self._quantum_s = quantum_s
        self._clock = clock
        self._is_told = is_told

    def run(self) -> None:
        """Turn after turn, until every job is over or held by another slot."""
        while not self._is_told() and self.turn():
            pass

    def wait(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        """Nothing to run for so long; recorded, so that it is not taken for idleness."""
        began = self._clock()
        sleep(seconds)
        self._record("", began, 0.0, "empty")

    def turn(self) -> bool:
        """Run the next job until it is over or gives way; False where there is nothing to run."""
        entry = next_entry(self._queue.entries(), self._clock())
        if entry is None:
            return False
        with self._queue.hold(entry.job.id) as is_held:
            if is_held:
                self._turn_of(Entry(entry.job, self._queue.progress(entry.job.id), True))
        return True

    def _turn_of(self, entry: Entry) -> None:
        if not entry.is_open:  # another slot has finished it since
            return
        turn = _Turn(self._queue, entry, self._clock, self._quantum_s, self._is_told)
        turn.report(JobStatus.RUNNING)
        try:
            is_done = self._run_job(
                entry.job.recipe,
                self._queue.run_path(entry.job.id),
                on_tick=turn.tick,
                is_stopping=turn.is_stopping,
            )
        except Exception as error:  # noqa: BLE001 - whatever ends one job must not end the others
            turn.report(JobStatus.FAILED, f"{type(error).__name__}: {error}")
            turn.end = "failed"
        except BaseException:
            turn.report(JobStatus.WAITING)
            raise
        else:
            turn.finish(is_done)
        self._record(entry.job.id, turn.began_s, turn.steps_s, turn.end)

    def _record(self, job_id: str, began_s: float, steps_s: float, end: str) -> None:
        self._queue.record(
            self._name,
            Turn(job=job_id, began_s=began_s, ended_s=self._clock(), steps_s=steps_s, end=end),
        )


class _Turn:
    """A job's time in a slot, as it goes on."""

    def __init__(
        self,
        queue: Queue,
        entry: Entry,
        clock: Callable[[], float],
        quantum_s: float,
        is_told: Callable[[], bool],
    ) -> None:
        self._queue = queue
        self._entry = entry
        self._clock = clock
        self._quantum_s = quantum_s
        self._is_told = is_told
        self._progress = entry.progress
        self.began_s = clock()
        self.steps_s = 0.0
        self.end = "done"

    @property
    def _job(self) -> Job:
        return self._entry.job

    def tick(self, tick: Tick) -> None:
        self.steps_s += tick.seconds
        self._progress = replace(self._progress, num_done=tick.num_done, num_steps=tick.num_steps)
        self.report(JobStatus.RUNNING)

    def is_stopping(self) -> bool:
        """Whether to stop at this border; `end` says why."""
        now = self._clock()
        if self._is_told():
            self.end = "stopped"
        elif self._queue.is_cancelled(self._job.id):
            self.end = "cancelled"
        elif gives_way(
            self._entry,
            self._queue.entries(),
            turn_s=now - self.began_s,
            quantum_s=self._quantum_s,
            now_s=now,
        ):
            self.end = "gave_way"
        else:
            self.end = "done"
        return self.end != "done"

    def finish(self, is_done: bool) -> None:
        """Write how it ended."""
        if is_done:
            self.end = "done"
            self.report(JobStatus.DONE)
        elif self.end == "cancelled":
            self.report(JobStatus.CANCELLED)
        else:
            is_preempted = self.end == "gave_way"
            self._progress = replace(
                self._progress, num_preemptions=self._progress.num_preemptions + is_preempted
            )
            self.report(JobStatus.WAITING)

    def report(self, status: JobStatus, detail: str = "") -> None:
        """Write how far the job is."""
        now = self._clock()
        used = self._entry.progress.used_s + now - self.began_s
        written = replace(self._progress, status=status, used_s=used, written_s=now, detail=detail)
        self._queue.report(self._job.id, written)
