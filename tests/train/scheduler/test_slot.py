"""A slot on jobs that only let a clock run: shares, deadlines, failures, and no idle time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from train.scheduler.job import Job, JobStatus
from train.scheduler.queue_directory import Queue, QueueError
from train.scheduler.slot import Slot, Tick
from train.scheduler.turns import Turn, utilisation


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Steps:
    """Jobs of `num_steps` steps, a second each, that keep their place; what happens at a step is told by name."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.done: dict[str, int] = {}
        self.order: list[str] = []
        self.at: dict[tuple[str, int], Callable[[], None]] = {}

    def __call__(
        self,
        recipe: Mapping[str, Any],
        path: Path,
        *,
        on_tick: Callable[[Tick], None],
        is_stopping: Callable[[], bool],
    ) -> bool:
        name = path.name
        while self.done.setdefault(name, 0) < recipe["num_steps"]:
            if is_stopping():
                return False
            self.clock.sleep(1.0)
            self.done[name] += 1
            self.order.append(name)
            on_tick(Tick(self.done[name], recipe["num_steps"], 1.0))
            self.at.get((name, self.done[name]), lambda: None)()
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path / "queue")


def job(name: str, num_steps: int, **members: Any) -> Job:
    return Job(id=name, recipe={"num_steps": num_steps}, **{"added_s": 0.0, **members})


def statuses(queue: Queue) -> dict[str, str]:
    return {entry.job.id: entry.progress.status.value for entry in queue.entries()}


def test_higher_priority_preempts_at_the_next_border(queue: Queue, clock: Clock) -> None:
    """The low job stops after the step in which the high one came, and goes on when that is done."""
    steps = Steps(clock)
    queue.add(job("low", 4))
    steps.at["low", 2] = lambda: queue.add(job("high", 3, priority=5))
    Slot(queue, steps, clock=clock).run()
    assert steps.order == ["low"] * 2 + ["high"] * 3 + ["low"] * 2
    assert statuses(queue) == {"low": "done", "high": "done"}
    assert queue.progress("low").num_preemptions == 1
    assert queue.progress("low").used_s == 4.0


def test_equal_owners_get_equal_time(queue: Queue, clock: Clock) -> None:
    """One owner with two jobs and one with one: while both have work, neither is ahead by more than a turn."""
    steps = Steps(clock)
    for name, owner in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        queue.add(job(name, 20, owner=owner))
    Slot(queue, steps, clock=clock, quantum_s=4.0).run()
    had = {"a": 0, "b": 0}
    for name in steps.order[:40]:
        had[name[0]] += 1
        assert abs(had["a"] - had["b"]) <= 4
    assert set(statuses(queue).values()) == {"done"}


def test_deadline_is_met_that_order_of_arrival_would_miss(queue: Queue, clock: Clock) -> None:
    """A job of 5 s due in 12 s goes before a job of 50 s that came first."""
    steps = Steps(clock)
    queue.add(job("long", 50, added_s=0.0))
    queue.add(job("due", 5, added_s=1.0, deadline_s=clock.now + 12))
    ended = []
    steps.at["due", 5] = lambda: ended.append(clock.now)
    Slot(queue, steps, clock=clock, quantum_s=1000.0).run()
    assert ended[0] <= 1012.0
    assert statuses(queue) == {"due": "done", "long": "done"}


def test_no_slot_is_idle_while_jobs_wait(queue: Queue, clock: Clock) -> None:
    """Busy all the time but for what was empty, and every second of it in a step."""
    steps = Steps(clock)
    slot = Slot(queue, steps, clock=clock, quantum_s=2.0)
    queue.add(job("one", 5))
    queue.add(job("two", 5))
    slot.run()
    slot.wait(7.0, clock.sleep)
    queue.add(job("three", 3))
    slot.run()
    found = utilisation(queue.turns()["0"])
    assert (found.busy_share, found.steps_share, found.idle_s, found.empty_s) == (1.0, 1.0, 0.0, 7.0)


def test_utilisation_counts_what_is_idle() -> None:
    """10 s of turns with 5 s between them, 8 s of steps: two thirds busy, 8/15 in steps."""
    turns = [
        Turn(job="a", began_s=0.0, ended_s=4.0, steps_s=3.0, end="done"),
        Turn(job="b", began_s=9.0, ended_s=15.0, steps_s=5.0, end="done"),
    ]
    found = utilisation(turns)
    assert found.busy_share == pytest.approx(2 / 3)
    assert found.steps_share == pytest.approx(8 / 15)
    assert found.idle_s == pytest.approx(5.0)


def test_a_failing_job_ends_alone(queue: Queue, clock: Clock) -> None:
    """The next one runs, and the reason is kept."""
    steps = Steps(clock)

    def fail() -> None:
        raise OSError("the disk is full")

    steps.at["bad", 1] = fail
    queue.add(job("bad", 2, priority=1))
    queue.add(job("good", 2))
    Slot(queue, steps, clock=clock).run()
    assert statuses(queue) == {"bad": "failed", "good": "done"}
    assert queue.progress("bad").detail == "OSError: the disk is full"


def test_cancelled_before_and_while_running(queue: Queue, clock: Clock) -> None:
    """One never begins; the other stops at its next border."""
    steps = Steps(clock)
    queue.add(job("never", 2))
    queue.cancel("never")
    queue.add(job("midway", 5))
    steps.at["midway", 2] = lambda: queue.cancel("midway")
    Slot(queue, steps, clock=clock).run()
    assert statuses(queue) == {"midway": "cancelled", "never": "cancelled"}
    assert steps.order == ["midway"] * 2
    with pytest.raises(QueueError, match="no job"):
        queue.cancel("nobody")


def test_a_job_is_held_by_one_slot(queue: Queue, clock: Clock) -> None:
    """A second slot on the queue takes another job, or none; a slot that was interrupted lets go."""
    steps = Steps(clock)
    queue.add(job("only", 3))
    seen = []
    steps.at["only", 1] = lambda: seen.append(Slot(queue, steps, clock=clock, name="1").turn())

    def interrupt() -> None:
        raise KeyboardInterrupt

    steps.at["only", 2] = interrupt
    with pytest.raises(KeyboardInterrupt):
        Slot(queue, steps, clock=clock).run()
    assert seen == [False]
    assert statuses(queue) == {"only": "waiting"}
    Slot(queue, steps, clock=clock).run()
    assert statuses(queue) == {"only": "done"}


def test_a_dead_process_lets_go(queue: Queue, clock: Clock) -> None:
    """A job whose slot was killed is `running` and not held, and is taken up by the next."""
    queue.add(job("lost", 2))
    code = (
        "import os, sys; from pathlib import Path\n"
        "from train.scheduler.queue_directory import Queue; from train.scheduler.slot import Slot\n"
        "Slot(Queue(Path(sys.argv[1])), lambda *a, **k: os._exit(9)).turn()"
    )
    assert subprocess.run([sys.executable, "-c", code, str(queue.path)], check=False).returncode == 9
    (entry,) = queue.entries()
    assert (entry.progress.status, entry.is_held) == (JobStatus.RUNNING, False)
    Slot(queue, Steps(clock), clock=clock).run()
    assert statuses(queue) == {"lost": "done"}


def test_what_is_no_job_is_passed_over(queue: Queue, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """With a word about it; and ids are kept apart."""
    (queue.path / "jobs" / "torn.json").write_text('{"id": "torn"')
    queue.add(job("fine", 1))
    Slot(queue, Steps(clock), clock=clock).run()
    assert statuses(queue) == {"fine": "done"}
    assert "torn.json is passed over" in caplog.text
    with pytest.raises(QueueError, match="already"):
        queue.add(job("fine", 1))
    with pytest.raises(QueueError, match="no id"):
        queue.add(job("../out", 1))
