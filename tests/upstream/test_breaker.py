"""The breaker: worked transitions, and laws over any sequence of outcomes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.upstream.breaker import Breaker, BreakerState, Health, Ticket

SUCCESS, NEUTRAL, FAILURE = Health.SUCCESS, Health.NEUTRAL, Health.FAILURE


def attempt(breaker: Breaker, health: Health, now: float) -> None:
    breaker.end(breaker.begin(now), health, now)


def tripped(at: float = 0.0) -> Breaker:
    """Open from `at` until `at` + 1."""
    breaker = Breaker(max_failures=3, open_s=1.0, max_open_s=8.0)
    for _ in range(3):
        attempt(breaker, FAILURE, at)
    assert breaker.state(at) is BreakerState.OPEN
    return breaker


def test_opens_after_failures_in_a_row() -> None:
    """Three failures in a row open it; a success between them begins the count anew."""
    breaker = Breaker(max_failures=3)
    for health in (FAILURE, FAILURE, SUCCESS, FAILURE, FAILURE):
        attempt(breaker, health, 0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED
    attempt(breaker, FAILURE, 0.0)
    assert breaker.state(0.0) is BreakerState.OPEN
    assert not breaker.allows(0.999)


def test_neutral_says_nothing_while_closed() -> None:
    """A client's 4xx and a full replica neither open it nor end a streak of failures (smg PR#2565)."""
    breaker = Breaker(max_failures=3)
    for _ in range(100):
        attempt(breaker, NEUTRAL, 0.0)
    for health in (FAILURE, NEUTRAL, FAILURE, NEUTRAL):
        attempt(breaker, health, 0.0)
    assert breaker.allows(0.0)
    attempt(breaker, FAILURE, 0.0)
    assert not breaker.allows(0.0)


def test_half_open_lets_one_probe_through() -> None:
    """When its time is over one attempt may go, and no other until that one has ended."""
    breaker = tripped()
    assert breaker.state(1.0) is BreakerState.HALF_OPEN
    probe = breaker.begin(1.0)
    assert not breaker.allows(1.0)
    breaker.end(probe, SUCCESS, 2.0)
    assert breaker.state(2.0) is BreakerState.CLOSED


def test_neutral_probe_keeps_it_half_open() -> None:
    """A probe that says nothing closes nothing, opens nothing, and leaves its place to the next."""
    breaker = tripped()
    attempt(breaker, NEUTRAL, 1.5)
    assert breaker.state(1.5) is BreakerState.HALF_OPEN
    assert breaker.allows(1.5)


def test_failed_probes_double_the_time_up_to_the_limit() -> None:
    """Open times are 1, 2, 4, 8, 8 …; after a success they begin at 1 again."""
    breaker, now, times = tripped(), 0.0, []
    for _ in range(5):
        until = breaker.open_until
        assert until is not None
        times.append(until - now)
        now = until
        attempt(breaker, FAILURE, now)
    assert times == [1, 2, 4, 8, 8]
    assert breaker.open_until is not None
    now = breaker.open_until
    attempt(breaker, SUCCESS, now)
    for _ in range(3):
        attempt(breaker, FAILURE, now)
    assert breaker.open_until == now + 1


def test_old_news_changes_nothing() -> None:
    """Attempts from before it opened neither close it, nor lengthen its rest, when they end."""
    breaker = Breaker(max_failures=2, open_s=1.0)
    early = [breaker.begin(0.0) for _ in range(10)]
    for ticket in early[:2]:
        breaker.end(ticket, FAILURE, 0.0)
    for ticket in early[2:9]:
        breaker.end(ticket, FAILURE, 0.5)
    breaker.end(early[9], SUCCESS, 0.5)
    assert breaker.open_until == 1.0


def test_traffic_sent_in_panic_counts() -> None:
    """An attempt begun while open closes it by success, and keeps it open longer, but not doubly, by failure."""
    breaker = tripped()
    attempt(breaker, FAILURE, 0.5)
    assert breaker.open_until == 1.5
    attempt(breaker, SUCCESS, 0.6)
    assert breaker.state(0.6) is BreakerState.CLOSED


steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end"]), st.sampled_from(list(Health)), st.floats(0, 3), st.integers(0, 9)
    ),
    max_size=80,
)


@given(steps)
def test_laws(sequence: list[tuple[str, Health, float, int]]) -> None:
    """An open breaker's end never comes nearer; half-open holds one probe at most; every probe is freed at last."""
    breaker, now, open_tickets = Breaker(max_failures=2, open_s=1.0, max_open_s=5.0), 0.0, list[Ticket]()
    for verb, health, passed, which in sequence:
        now += passed
        before = breaker.open_until
        if verb == "begin":
            open_tickets.append(breaker.begin(now))
        elif open_tickets:
            breaker.end(open_tickets.pop(which % len(open_tickets)), health, now)
        after = breaker.open_until
        assert before is None or after is None or after >= before
        if after is not None:
            assert after <= max(before or 0.0, now + 5.0)
        probes = Counter(ticket.epoch for ticket in open_tickets if ticket.is_probe)
        assert all(num == 1 for num in probes.values())
    for ticket in open_tickets:
        breaker.end(ticket, NEUTRAL, now)
    assert breaker.allows(now + 5.0)


@pytest.mark.parametrize("health", [NEUTRAL, SUCCESS])
@given(st.integers(1, 200))
def test_without_failures_it_never_opens(health: Health, num_attempts: int) -> None:
    """However many attempts say success, or nothing, it stays closed."""
    breaker = Breaker(max_failures=1)
    for _ in range(num_attempts):
        attempt(breaker, health, 0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED
