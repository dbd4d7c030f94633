"""The routing curve on worked numbers, its laws, and figures of many draws at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.calibration import brier_score, expected_calibration_error
from router.ranking import RoutingCurves, auc, calibration_errors, mean, routing_curves

WEAK, STRONG = np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0])  # gains 1 0 −1 1, gap ¼
ONCE = np.ones((1, 4))

cases = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=2, max_size=30)


def curve_of(case: list[tuple[int, bool, bool]]) -> RoutingCurves:
    scores, weak, strong = np.array(case, dtype=float).T
    return routing_curves(scores, weak, strong, np.ones((1, len(case))))


def test_worked_curve() -> None:
    """Falling scores 4 3 2 1 on gains 1 1 0 −1: ¼ ½ ½ ¼, so APGR is (⅛ + ⅜ + ½ + ⅜)·¼ / ¼."""
    curve = routing_curves(np.array([4.0, 2.0, 1.0, 3.0]), WEAK, STRONG, ONCE)
    assert curve.shares.tolist() == [[0, 0.25, 0.5, 0.75, 1]]
    assert curve.gains.tolist() == [[0, 0.25, 0.5, 0.5, 0.25]]
    assert curve.gap.tolist() == [0.25]
    assert curve.apgr() == pytest.approx([1.375])
    assert (curve.cpt(0.5), curve.cpt(0.8)) == (pytest.approx([0.125]), pytest.approx([0.2]))
    assert curve.at(np.array([0.125, 0.6])).tolist() == [[0.125, 0.5]]


def test_equal_scores_are_a_random_order() -> None:
    """A score that says nothing has an APGR of exactly one half, whatever the order of the data."""
    curve = routing_curves(np.zeros(4), WEAK, STRONG, ONCE)
    assert (curve.apgr().item(), curve.cpt(0.5).item()) == (0.5, 0.5)


@given(cases)
def test_order_of_the_data_does_not_matter(case: list[tuple[int, bool, bool]]) -> None:
    """The curve is a property of the set of requests."""
    assert curve_of(case).gains == pytest.approx(curve_of(case[::-1]).gains)


@given(cases)
def test_no_order_beats_the_oracle(case: list[tuple[int, bool, bool]]) -> None:
    """Sending first what the strong arm alone gets right, and last what it alone gets wrong, is best at every share."""
    oracle = curve_of([(strong - weak, weak, strong) for _, weak, strong in case])
    at = np.linspace(0, 1, 41)
    assert np.all(curve_of(case).at(at) <= oracle.at(at) + 1e-9)


def test_no_gap_has_no_figure() -> None:
    """Where both arms are equally good there is nothing to recover."""
    curve = curve_of([(1, False, True), (2, True, False)])
    assert np.isnan(curve.apgr()).all()
    assert np.isnan(curve.cpt(0.5)).all()


def test_counts_are_repetitions() -> None:
    """A request that counts twice is two requests, and each draw is by itself."""
    scores, counts = np.array([4.0, 2.0, 2.0, 3.0]), np.array([[2.0, 1.0, 0.0, 1.0], [1.0, 0.0, 3.0, 1.0]])
    both = routing_curves(scores, WEAK, STRONG, counts)
    for draw, repeated in enumerate(([0, 0, 1, 3], [0, 2, 2, 2, 3])):
        alone = routing_curves(
            scores[repeated], WEAK[repeated], STRONG[repeated], np.ones((1, len(repeated)))
        )
        assert both.apgr()[draw] == pytest.approx(alone.apgr()[0])
        assert both.cpt(0.5)[draw] == pytest.approx(alone.cpt(0.5)[0], nan_ok=True)
        for figure in (auc, calibration_errors):
            assert figure(scores / 5, STRONG, counts)[draw] == pytest.approx(
                figure(scores[repeated] / 5, STRONG[repeated], np.ones((1, len(repeated))))[0], nan_ok=True
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
    scores, successes = np.array(sample, dtype=float).T
    expected = sum(wins) / len(wins) if wins else float("nan")
    assert auc(scores, successes, np.ones((1, len(sample))))[0] == pytest.approx(expected, nan_ok=True)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_figures_equal_those_of_one_sample(sample: list[tuple[float, bool]]) -> None:
    """The calibration error by residuals is the one by bins, and the mean of squares the Brier score."""
    p, y = np.array(sample, dtype=float).T
    once = np.ones((1, len(sample)))
    assert calibration_errors(p, y, once)[0] == pytest.approx(expected_calibration_error(p, y))
    assert mean((p - y) ** 2, once)[0] == pytest.approx(brier_score(p, y))
