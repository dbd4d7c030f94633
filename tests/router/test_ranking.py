"""The routing curve on worked numbers, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.ranking import auc, bootstrap, routing_curve

WEAK, STRONG = np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0])  # gains 1 0 −1 1, gap ¼

cases = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=2, max_size=30)


def arrays(case: list[tuple[int, bool, bool]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores, weak, strong = np.array(case, dtype=float).T
    return scores, weak, strong


def test_worked_curve() -> None:
    """Falling scores 4 3 2 1 on gains 1 1 0 −1: ¼ ½ ½ ¼, so APGR is (⅛ + ⅜ + ½ + ⅜)·¼ / ¼."""
    curve = routing_curve(np.array([4.0, 2.0, 1.0, 3.0]), WEAK, STRONG)
    assert curve.shares.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert curve.gains.tolist() == [0, 0.25, 0.5, 0.5, 0.25]
    assert curve.gap == 0.25
    assert curve.apgr() == pytest.approx(1.375)
    assert (curve.cpt(0.5), curve.cpt(0.8)) == (pytest.approx(0.125), pytest.approx(0.2))


def test_equal_scores_are_a_random_order() -> None:
    """A score that says nothing has an APGR of exactly one half, whatever the order of the data."""
    curve = routing_curve(np.zeros(4), WEAK, STRONG)
    assert (curve.apgr(), curve.cpt(0.5)) == (0.5, 0.5)


@given(cases)
def test_order_of_the_data_does_not_matter(case: list[tuple[int, bool, bool]]) -> None:
    """The curve is a property of the set of requests."""
    forwards, backwards = routing_curve(*arrays(case)), routing_curve(*arrays(case[::-1]))
    assert forwards.gains == pytest.approx(backwards.gains)


@given(cases)
def test_no_order_beats_the_oracle(case: list[tuple[int, bool, bool]]) -> None:
    """Sending first what the strong arm alone gets right, and last what it alone gets wrong, is best at every share."""
    scores, weak, strong = arrays(case)
    oracle, curve = routing_curve(strong - weak, weak, strong), routing_curve(scores, weak, strong)
    at = np.linspace(0, 1, 41)
    best, got = (np.interp(at, each.shares, each.gains) for each in (oracle, curve))
    assert np.all(got <= best + 1e-9)


def test_no_gap_has_no_figure() -> None:
    """Where both arms are equally good there is nothing to recover."""
    curve = routing_curve(np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert np.isnan(curve.apgr())
    assert np.isnan(curve.cpt(0.5))


def test_counts_are_repetitions() -> None:
    """A request that counts twice is two requests."""
    scores, counts = np.array([4.0, 2.0, 1.0, 3.0]), np.array([2.0, 1.0, 0.0, 1.0])
    repeated = [0, 0, 1, 3]
    assert (
        routing_curve(scores, WEAK, STRONG, counts).apgr()
        == routing_curve(scores[repeated], WEAK[repeated], STRONG[repeated]).apgr()
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=25))
def test_auc_equals_counting_pairs(sample: list[tuple[int, bool]]) -> None:
    """AUC is the share of pairs of a success and a failure that are in the right order."""
    wins = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high, is_success in sample
        if is_success
        for low, is_other in sample
        if not is_other
    ]
    scores, successes = np.array([float(x) for x, _ in sample]), np.array([float(y) for _, y in sample])
    expected = sum(wins) / len(wins) if wins else float("nan")
    assert auc(scores, successes) == pytest.approx(expected, nan_ok=True)


def test_bootstrap_covers_a_mean() -> None:
    """The interval of a mean of 400 coins is about ±1.96 standard errors; of 100 groups of 4 alike, twice as wide."""
    generator = np.random.default_rng(5)
    coins = generator.integers(0, 2, 100).astype(float)
    alone = bootstrap(
        lambda counts: float(counts @ np.tile(coins, 4) / counts.sum()),
        np.arange(400),
        generator,
        num_draws=600,
    )
    grouped = bootstrap(
        lambda counts: float(counts @ np.tile(coins, 4) / counts.sum()),
        np.tile(np.arange(100), 4),
        generator,
        num_draws=600,
    )
    assert alone.value == grouped.value == coins.mean()
    assert alone.high - alone.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.15)
    assert grouped.high - grouped.low == pytest.approx(2 * (alone.high - alone.low), rel=0.2)
