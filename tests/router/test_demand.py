"""Demand: the exact mean over the requests at every λ, and its inverses."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from router.demand import Demand, demand
from router.offer import ArmOffer, Metric, Offer, Spend
from router.staircase import Staircase, staircase

SPREAD = 0.1


def stairs(*arms: tuple[float, float], floor: float = 0.0) -> Staircase:
    """Arms as (p, cost)."""
    offered = Offer(
        arms=tuple(
            ArmOffer(success_probability=p, expected=Spend(cost=cost, engine_seconds=0.0, full_share=0.0))
            for p, cost in arms
        ),
        quality_floor=floor,
    )
    return staircase(offered, Metric.COST_PER_REQUEST)


unit = st.floats(0, 1)
staircases = st.lists(
    st.builds(
        lambda arms, floor: stairs(*arms, floor=floor),
        st.lists(st.tuples(unit, st.floats(0, 100)), min_size=1, max_size=4),
        unit,
    ),
    min_size=1,
    max_size=12,
)
some_prices = st.floats(1e-6, 1e6)


def made(rows: list[Staircase], spread: float = SPREAD) -> Demand:
    curve = demand(rows, spread=spread)
    if curve is None:
        reject()
    return curve


def mean_price(rows: list[Staircase], price_of_compute: float, spread: float = SPREAD) -> float:
    return float(np.mean([np.dot(row.chances(price_of_compute, spread), row.prices) for row in rows]))


def mean_probability(rows: list[Staircase], price_of_compute: float) -> float:
    return float(np.mean([np.dot(row.chances(price_of_compute, SPREAD), row.probabilities) for row in rows]))


@given(staircases, some_prices)
def test_it_is_the_mean_of_the_requests(rows: list[Staircase], price_of_compute: float) -> None:
    """At any λ the curve is the mean over the requests of chance times price, and of chance times probability."""
    curve = made(rows)
    assert curve.price_at(price_of_compute) == pytest.approx(mean_price(rows, price_of_compute), abs=1e-8)
    assert curve.probability_at(price_of_compute) == pytest.approx(
        mean_probability(rows, price_of_compute), abs=1e-9
    )
    assert curve.least_price == pytest.approx(np.mean([row.prices[0] for row in rows]))
    assert curve.greatest_price == pytest.approx(np.mean([row.prices[-1] for row in rows]), abs=1e-8)


@given(staircases, unit)
def test_a_target_within_reach_is_met_exactly(rows: list[Staircase], share: float) -> None:
    """Between the least and the greatest mean price the λ found takes the target, whatever the requests have alike."""
    curve = made(rows)
    target = curve.least_price + share * (curve.greatest_price - curve.least_price)
    price_of_compute = curve.price_of_compute_for(target)
    assert mean_price(rows, price_of_compute) == pytest.approx(target, abs=1e-6)


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=60, unique=True), unit)
def test_without_a_band_it_is_met_within_one_request(gains: list[int], share: float) -> None:
    """Requests that are all different, at λ itself and no band: the full share is within 1/n of the target."""
    rows = [stairs((0.0, 0.0), (gain / 10**6, 1.0)) for gain in gains]
    price_of_compute = made(rows, spread=1e-9).price_of_compute_for(share)
    taken = sum(row.prices[row.choose(price_of_compute)] for row in rows) / len(rows)
    assert abs(taken - share) <= 1 / len(rows) + 1e-9


@given(staircases, st.floats(0, 120), st.floats(0, 120))
def test_a_greater_target_never_raises_the_price(rows: list[Staircase], one: float, other: float) -> None:
    """λ never rises with the target, within reach or out of it."""
    curve = made(rows)
    low, high = sorted((one, other))
    assert curve.price_of_compute_for(high) <= curve.price_of_compute_for(low)


@given(staircases, some_prices, some_prices)
def test_demand_never_rises_with_the_price(rows: list[Staircase], one: float, other: float) -> None:
    """A dearer λ takes no more and fares no better."""
    curve = made(rows)
    low, high = sorted((one, other))
    assert curve.price_at(high) <= curve.price_at(low)
    assert curve.probability_at(high) <= curve.probability_at(low)
    assert max(np.diff(curve.prices)) <= 0 >= max(np.diff(curve.probabilities))


@given(staircases, unit)
def test_the_floor_bounds_the_price(rows: list[Staircase], floor: float) -> None:
    """At the greatest λ above a floor within reach quality is at least the floor, and just beyond it is below."""
    curve = made(rows)
    price_of_compute = curve.price_of_compute_above(floor)
    if price_of_compute == inf:
        assert mean_probability(rows, 1e300) >= floor - 1e-8
    elif curve.probability_at(0.0) >= floor:
        assert mean_probability(rows, price_of_compute) >= floor - 1e-8
        assert mean_probability(rows, price_of_compute * 1.2) <= floor + 1e-8


def test_out_of_reach_gives_the_nearest_end() -> None:
    """A target below everything gets the least λ that takes the least; one above everything, the greatest of all."""
    rows = [stairs((0.2, 1.0), (0.6, 2.0)), stairs((0.2, 1.0), (0.4, 2.0))]
    curve = made(rows)
    half = np.exp(SPREAD / 2)
    assert curve.price_of_compute_for(0.5) == pytest.approx(0.4 * half)
    assert curve.price_of_compute_for(9.0) == pytest.approx(0.2 / half)
    assert curve.price_of_compute_for(1.5) == pytest.approx(0.2 * half)


def test_requests_that_leave_no_choice_have_no_curve() -> None:
    """Where λ changes nothing there is nothing to solve."""
    assert demand([stairs((0.5, 1.0))], spread=SPREAD) is None
    assert demand([], spread=SPREAD) is None
