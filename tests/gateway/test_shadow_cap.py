"""The cap of shadow runs: no hour takes more, whatever overlaps."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.gateway.shadow_cap import HOUR_S, HourlyCap, Reservation

CAP = 100

steps = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 40)),
        st.tuples(st.just("settle"), st.integers(0, 100)),  # per cent of what was reserved
        st.tuples(st.just("wait"), st.integers(0, 2000)),
    ),
    max_size=60,
)


@given(steps)
def test_no_hour_takes_more_than_the_cap(steps: list[tuple[str, int]]) -> None:
    """In any order of beginnings and ends, spent within an hour and set aside together stay within the cap."""
    cap, now = HourlyCap(CAP), 0.25
    held: list[Reservation] = []
    spent: Counter[float] = Counter()
    for step, amount in steps:
        if step == "wait":
            now += amount
        elif step == "reserve":
            reservation = cap.reserve(amount, now)
            if reservation is not None:
                held.append(reservation)
            else:
                assert amount > 0
        elif held:
            reservation = held.pop(0)
            took = reservation.cost * amount / 100
            cap.settle(reservation, took, now)
            spent[now] += took
        for end in spent:
            assert sum(took for at, took in spent.items() if end - HOUR_S < at <= end) <= CAP + 1e-9
        in_this_hour = sum(took for at, took in spent.items() if now - HOUR_S < at)
        assert in_this_hour + sum(reservation.cost for reservation in held) <= CAP + 1e-9


def test_what_is_exactly_left_can_be_had() -> None:
    """Neither a run less than the cap bears, nor one more."""
    cap = HourlyCap(1.0)
    assert [cap.reserve(0.25, 0.0) is not None for _ in range(5)] == [True] * 4 + [False]


def test_an_hour_later_it_is_whole_again() -> None:
    """What was spent leaves the hour a second late at most."""
    cap = HourlyCap(1.0)
    reservation = cap.reserve(1.0, 10.5)
    assert reservation is not None
    cap.settle(reservation, 1.0, 10.5)
    assert cap.reserve(0.5, 10.5 + HOUR_S - 0.1) is None
    assert cap.reserve(1.0, 10.5 + HOUR_S + 1.0) is not None


def test_a_run_that_took_more_leaves_less() -> None:
    """Nothing more is begun until the hour has room for it."""
    cap = HourlyCap(1.0)
    reservation = cap.reserve(0.1, 0.0)
    assert reservation is not None
    cap.settle(reservation, 5.0, 0.0)
    assert cap.reserve(0.0001, HOUR_S - 1) is None
    assert cap.reserve(0.9, HOUR_S + 2) is not None


def test_a_cap_of_nothing_lets_through_what_is_free() -> None:
    """Tiers without a price cost nothing."""
    cap = HourlyCap(0.0)
    assert cap.reserve(0.0, 0.0) is not None
    assert cap.reserve(1e-12, 0.0) is None


def test_a_reservation_is_settled_once() -> None:
    """Twice would be a mistake of ours, and is not forgiven silently."""
    cap = HourlyCap(1.0)
    reservation = cap.reserve(0.5, 0.0)
    assert reservation is not None
    cap.settle(reservation, 0.5, 0.0)
    with pytest.raises(KeyError):
        cap.settle(reservation, 0.5, 0.0)


def test_many_small_runs_take_little_memory() -> None:
    """A busy day of them is kept as one entry for each second of the last hour."""
    cap = HourlyCap(1e9)
    for i in range(20_000):
        reservation = cap.reserve(1e-6, i / 2)
        assert reservation is not None
        cap.settle(reservation, 1e-6, i / 2)
    assert len(cap._spent) <= HOUR_S + 1
