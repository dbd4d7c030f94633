"""Who is next, and who gives way."""

from __future__ import annotations

from dataclasses import replace

from train.scheduler.job import Entry, Job, JobStatus, Progress
from train.scheduler.order import MEMORY_S, gives_way, is_urgent, next_entry


def entry(
    name: str,
    *,
    priority: int = 0,
    owner: str = "a",
    used_s: float = 0.0,
    deadline_s: float | None = None,
    num_done: int = 0,
    is_held: bool = False,
    status: JobStatus = JobStatus.WAITING,
) -> Entry:
    job = Job(id=name, recipe={}, priority=priority, owner=owner, deadline_s=deadline_s, added_s=0.0)
    progress = Progress(status=status, num_done=num_done, num_steps=10, used_s=used_s)
    return Entry(job, progress, is_held)


def first(*entries: Entry, now_s: float = 0.0) -> str:
    found = next_entry(entries, now_s)
    assert found is not None
    return found.job.id


def test_priority_comes_before_everything() -> None:
    """Neither an urgent deadline nor a short account outweighs it."""
    low = entry("low", owner="poor", deadline_s=1.0)
    assert first(low, entry("high", priority=1, owner="rich", used_s=99.0)) == "high"


def test_owners_share() -> None:
    """Among equals the owner with the least time is next, jobs that ended within a day counted."""
    entries = [entry("a1", used_s=10.0), entry("a2"), entry("b1", owner="b", used_s=9.0)]
    assert first(*entries) == "b1"
    over = entry("b0", owner="b", used_s=50.0, status=JobStatus.DONE)
    assert first(*entries, over) == "a1"
    assert first(*entries, over, now_s=MEMORY_S) == "b1"


def test_deadline_at_risk() -> None:
    """10 steps of which 5 took 50 s: 50 s to go, so 60 s of time are a risk and 70 s are none; what is late is none."""
    job = entry("job", used_s=50.0, num_done=5, deadline_s=100.0)
    assert is_urgent(job, now_s=40.0)
    assert not is_urgent(job, now_s=30.0)
    assert not is_urgent(job, now_s=101.0)
    assert is_urgent(entry("new", deadline_s=1e9), now_s=0.0)
    assert first(entry("idle", owner="b"), job, now_s=40.0) == "job"
    assert first(entry("idle", owner="b"), job, now_s=30.0) == "idle"


def test_held_and_finished_jobs_are_not_next() -> None:
    """A slot takes what is open and free."""
    entries = [
        entry("held", is_held=True),
        *(entry(s, status=s) for s in set(JobStatus) - {"waiting", "running"}),
    ]
    assert next_entry(entries, 0.0) is None
    assert first(*entries, entry("lost", status=JobStatus.RUNNING)) == "lost"


def way(running: Entry, *others: Entry, turn_s: float = 1.0, now_s: float = 0.0) -> bool:
    held = replace(running, is_held=True)
    return gives_way(held, [held, *others], turn_s=turn_s, quantum_s=10.0, now_s=now_s)


def test_gives_way_at_once_to_more_and_never_to_less() -> None:
    """By priority, whatever the turn."""
    assert way(entry("low"), entry("high", priority=1))
    assert not way(entry("high", priority=1), entry("low"), turn_s=99.0)
    assert not way(entry("alone"), turn_s=99.0)


def test_gives_way_to_an_equal_when_its_turn_is_over() -> None:
    """And only to one that is ahead of it by then."""
    assert not way(entry("a"), entry("b", owner="b"), turn_s=9.0)
    assert way(entry("a"), entry("b", owner="b"), turn_s=10.0)
    assert not way(entry("a"), entry("b", owner="b", used_s=50.0), turn_s=10.0)


def test_gives_way_to_a_deadline() -> None:
    """Where it is not at risk itself."""
    urgent = entry("urgent", owner="b", deadline_s=20.0, used_s=20.0, num_done=5)
    assert way(entry("a"), urgent)
    assert not way(entry("a", deadline_s=5.0), urgent)


def test_one_arrival_stops_one_slot() -> None:
    """Of two that run, the last in order gives way and the other goes on."""
    one, two = entry("one", used_s=5.0, is_held=True), entry("two", owner="b", is_held=True)
    entries = [one, two, entry("high", priority=1)]
    told = {e.job.id: gives_way(e, entries, turn_s=0.0, quantum_s=10.0, now_s=0.0) for e in (one, two)}
    assert told == {"one": True, "two": False}
