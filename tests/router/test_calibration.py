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
    fit_line,
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
    """The map never falls and never promises 0 or 1."""
    scores, successes = np.array([float(x) for x, _ in sample]), np.array([float(y) for _, y in sample])
    at = fit_isotonic(scores, successes)(np.linspace(-5, 5, 50))
    assert np.all(np.diff(at) >= 0)
    assert np.all((at > 0) & (at < 1))


def test_worked_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes 0 1 0 1 at scores 1 to 4 pool to 0, ½, 1; without a prior they are read as they are, with lines."""
    monkeypatch.setattr(calibration, "PRIOR", 0.0)
    fitted = fit_isotonic(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    assert fitted.scores.tolist() == [1.0, 2.5, 4.0]
    assert fitted.probabilities.tolist() == pytest.approx([0.0, 0.5, 1.0])
    assert fitted(np.array([0.0, 1.75, 9.0])).tolist() == pytest.approx([0.0, 0.25, 1.0])


def test_few_outcomes_follow_the_curve_and_many_the_pools() -> None:
    """Outcomes that step at 0 are smoothed while they are few, and the step is kept when they are many."""

    def step(num: int) -> float:
        scores = np.linspace(-1, 1, num)
        shares = np.where(scores > 0, 0.8, 0.2)
        successes = (np.random.default_rng(0).random(num) < shares).astype(float)
        low, high = fit_isotonic(scores, successes)(np.array([-0.5, 0.5]))
        return float(high - low)

    assert step(60) < 0.5
    assert step(20_000) == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize(("slope", "intercept"), [(2.0, -0.5), (0.3, 1.0)])
def test_line_is_found(slope: float, intercept: float) -> None:
    """The line that outcomes were drawn from is found, whatever the scores' scale."""
    generator = np.random.default_rng(4)
    scores = generator.normal(3.0, 1.0, 20_000)
    p = calibration.sigmoid(slope * (scores - 3.0) + intercept)
    line = fit_line(scores, (generator.random(len(p)) < p).astype(float))
    assert line(np.array([3.0, 4.0])) == pytest.approx([intercept, slope + intercept], abs=0.12)


def test_line_never_falls() -> None:
    """Scores that are the wrong way round give a flat line, and scores without spread no fault."""
    scores = np.linspace(0, 1, 50)
    falling = fit_line(scores, (scores < 0.5).astype(float))
    assert falling.slope == 0
    assert calibration.sigmoid(falling(np.array([0.3])))[0] == pytest.approx(0.5, abs=0.01)
    assert np.isfinite(fit_line(np.zeros(10), np.ones(10)).intercept)


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
