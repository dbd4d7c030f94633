"""Isotonic calibration against a slow reference, and the figures of calibration on worked numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import calibration
from router.calibration import (
    brier_score,
    calibration_noise,
    expected_calibration_error,
    fit_isotonic,
    reliability,
)

samples = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=30)


def slow_isotonic(scores: list[float], successes: list[float]) -> dict[float, float]:
    """max over lower ends of min over upper ends of the mean between (Robertson, Wright & Dykstra 1988)."""
    points = sorted(set(scores))

    def mean(low: float, high: float) -> float:
        inside = [y for x, y in zip(scores, successes, strict=True) if low <= x <= high]
        return sum(inside) / len(inside)

    return {
        x: max(min(mean(low, high) for high in points if high >= x) for low in points if low <= x)
        for x in points
    }


@given(samples)
def test_pools_equal_the_min_max_formula(sample: list[tuple[int, bool]]) -> None:
    """Without the prior, the fit at the mean score of each pool is the least-squares fit that never falls."""
    scores, successes = np.array([float(x) for x, _ in sample]), np.array([float(y) for _, y in sample])
    pools = calibration._pool(*_columns(scores, successes))
    slow = slow_isotonic(scores.tolist(), successes.tolist())
    means = pools.sums / pools.weights
    assert np.all(np.diff(means) > 0)
    assert sorted(set(slow.values())) == pytest.approx(means.tolist())


def _columns(scores: np.ndarray, successes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    points = np.unique(scores)
    weights = np.array([float((scores == x).sum()) for x in points])
    return points * weights, np.array([successes[scores == x].sum() for x in points]), weights


@given(samples)
def test_calibrated_rises_and_promises_nothing(sample: list[tuple[int, bool]]) -> None:
    """The map never falls, and gives 0 or 1 only where every outcome was that."""
    scores, successes = np.array([float(x) for x, _ in sample]), np.array([float(y) for _, y in sample])
    at = fit_isotonic(scores, successes)(np.linspace(-5, 5, 50))
    assert np.all(np.diff(at) >= 0)
    if 0 < successes.mean() < 1:
        assert np.all((at > 0) & (at < 1))


def test_worked_pools() -> None:
    """Outcomes 0 1 0 1 at scores 1 to 4 pool to 0, ½, 1, each with one outcome of the prior's ½ beside it."""
    fitted = fit_isotonic(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    assert fitted.scores.tolist() == [1.0, 2.5, 4.0]
    assert fitted.probabilities.tolist() == pytest.approx([0.25, 0.5, 0.75])
    assert fitted(np.array([0.0, 1.75, 9.0])).tolist() == pytest.approx([0.25, 0.375, 0.75])


def test_reliability_and_its_error_by_hand() -> None:
    """Two bins: 3 predictions of 0.15 with 1 success, 1 of 0.9 with 1; error (3·|0.15 − ⅓| + |0.9 − 1|) / 4."""
    probabilities, successes = np.array([0.15, 0.15, 0.15, 0.9]), np.array([1.0, 0.0, 0.0, 1.0])
    assert [(b.num, b.success_share) for b in reliability(probabilities, successes)] == [
        (3, pytest.approx(1 / 3)),
        (1, 1.0),
    ]
    assert expected_calibration_error(probabilities, successes) == pytest.approx(
        (3 * (1 / 3 - 0.15) + 0.1) / 4
    )
    assert brier_score(probabilities, successes) == pytest.approx((0.85**2 + 2 * 0.15**2 + 0.1**2) / 4)


def test_certain_predictions_fall_into_the_last_bin() -> None:
    """A prediction of exactly 1 is no bin of its own."""
    assert len(reliability(np.array([0.95, 1.0]), np.array([1.0, 1.0]))) == 1


def test_noise_falls_with_the_number_of_outcomes() -> None:
    """Perfect predictions show about the error that chance makes, and a fourfold sample half of it."""
    generator = np.random.default_rng(3)
    small = calibration_noise(np.full(200, 0.5), generator)
    assert small == pytest.approx(np.sqrt(0.25 / 200) * np.sqrt(2 / np.pi), rel=0.15)
    assert calibration_noise(np.full(800, 0.5), generator) == pytest.approx(small / 2, rel=0.2)
