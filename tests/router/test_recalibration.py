"""Recalibration while serving: nothing without support, better with it, and never another order of forecasts."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.calibration import Floats, expected_calibration_error
from router.calibration_log import CalibrationLog
from router.recalibration import (
    MANY_OUTCOMES,
    MAX_OUTCOMES,
    MIN_OUTCOMES,
    MapKind,
    Recalibrator,
    fit_platt,
    recalibrated,
)


def logit(p: Floats) -> Floats:
    return np.asarray(np.log(p / (1 - p)))


def sigmoid(z: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-z)))


def same(p: Floats) -> Floats:
    return p


def shifted(p: Floats) -> Floats:
    """Everything has become harder."""
    return sigmoid(logit(p) - 0.7)


def kinked(p: Floats) -> Floats:
    """What was uncertain has become much harder; what was sure still is."""
    return np.where(p < 0.75, 0.6 * p, p)


def drawn(num: int, truth: Callable[[Floats], Floats], *, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    forecasts = np.clip(rng.beta(4, 1.5, num), 0.02, 0.98)
    return forecasts, (rng.random(num) < truth(forecasts)).astype(float)


def error(num: int, truth: Callable[[Floats], Floats], *, seed: int) -> float:
    """Root mean square distance from the truth of forecasts that were bent to so many grades."""
    made = recalibrated(*drawn(num, truth, seed=seed))
    fresh, _ = drawn(2000, truth, seed=seed + 1000)
    bent = np.array([made(float(p)) for p in fresh])
    return float(np.sqrt(np.mean((bent - truth(fresh)) ** 2)))


def test_without_support_nothing_changes() -> None:
    """One grade too few leaves every forecast as it is."""
    made = recalibrated(*drawn(MIN_OUTCOMES - 1, shifted, seed=0))
    assert (made.kind, made.num_outcomes, made(0.7)) == (MapKind.IDENTITY, MIN_OUTCOMES - 1, 0.7)
    assert recalibrated(*drawn(MIN_OUTCOMES, shifted, seed=0)).kind is MapKind.PLATT


@pytest.mark.parametrize(
    ("truth", "num", "without", "most"),
    [
        (same, 200, 0.0, 0.04),
        (same, 1000, 0.0, 0.03),
        (shifted, 200, 0.13, 0.07),
        (shifted, 1000, 0.13, 0.04),
        (kinked, 1000, 0.16, 0.07),
    ],
)
def test_forecasts_come_closer_to_the_truth(
    truth: Callable[[Floats], Floats], num: int, without: float, most: float
) -> None:
    """On the mean of ten draws; and where nothing drifted, forecasts are spoilt by little."""
    fresh, _ = drawn(2000, truth, seed=1)
    assert np.sqrt(np.mean((fresh - truth(fresh)) ** 2)) == pytest.approx(without, abs=0.01)
    assert np.mean([error(num, truth, seed=seed) for seed in range(10)]) <= most


def test_many_grades_choose_their_map() -> None:
    """Of a thousand grades, a kink asks for the isotonic map; a shift of everything mostly for Platt's; no drift
    mostly for none."""
    kinds = {
        truth: [recalibrated(*drawn(1000, truth, seed=seed)).kind for seed in range(10)]
        for truth in (same, shifted, kinked)
    }
    assert kinds[kinked].count(MapKind.ISOTONIC) >= 9
    assert kinds[shifted].count(MapKind.PLATT) >= 6
    assert kinds[same].count(MapKind.IDENTITY) >= 6


def test_platts_map_is_found() -> None:
    """With many grades the fit finds the line that they were drawn from."""
    forecasts, grades = drawn(50_000, lambda p: sigmoid(0.6 * logit(p) - 0.4), seed=0)
    made = fit_platt(forecasts, grades)
    assert (made.slope, made.shift) == pytest.approx((0.6, -0.4), abs=0.05)


outcomes = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=MIN_OUTCOMES, max_size=120)


@given(outcomes, st.floats(0, 1), st.floats(0, 1))
def test_the_order_of_forecasts_is_kept(rows: list[tuple[float, float]], one: float, other: float) -> None:
    """Whatever the grades, a higher forecast never becomes the lower one, and all stay probabilities."""
    made = recalibrated(*np.array(rows).T)
    low, high = sorted((one, other))
    assert 0 <= made(low) <= made(high) <= 1


@pytest.mark.parametrize("grade", [0.0, 1.0])
def test_all_of_one_grade_is_survived(grade: float) -> None:
    """Grades that are all alike move the forecasts towards them, and not to certainty at once."""
    made = recalibrated(np.full(60, 0.5), np.full(60, grade))
    assert 0.02 < abs(made(0.5) - 0.5) < 0.48


def test_arms_are_bent_by_their_own_grades() -> None:
    """One arm's failures say nothing about another's; before a refit nothing is said at all."""
    recalibrator = Recalibrator()
    for p, grade in zip(*drawn(400, shifted, seed=0), strict=True):
        recalibrator.observe("fast", probability=p, success=grade)
    assert recalibrator.apply("fast", 0.7) == 0.7
    assert recalibrator.refit()["fast"].kind is MapKind.PLATT
    assert recalibrator.apply("fast", 0.7) == pytest.approx(float(shifted(np.array([0.7]))[0]), abs=0.08)
    assert recalibrator.apply("full", 0.7) == 0.7


def test_a_restart_changes_nothing_and_memory_is_bounded() -> None:
    """The last outcomes alone are kept; saved as JSON and restored, the maps are the same."""
    recalibrator = Recalibrator()
    for p, grade in zip(*drawn(3 * MAX_OUTCOMES, kinked, seed=0), strict=True):
        recalibrator.observe("fast", probability=p, success=grade)
    recalibrator.refit()
    saved = json.loads(json.dumps(recalibrator.plain()))
    assert len(saved["outcomes"]["fast"]) == MAX_OUTCOMES >= MANY_OUTCOMES
    restored = Recalibrator.restored(saved)
    for p in np.linspace(0, 1, 21):
        assert restored.apply("fast", float(p)) == recalibrator.apply("fast", float(p))
    with pytest.raises(ValueError, match="schema"):
        Recalibrator.restored({"schema": 0})


def test_the_error_of_a_period_is_the_expected_calibration_error() -> None:
    """The streaming sums give what the batch formula gives, period by period."""
    log = CalibrationLog(period_s=10.0)
    assert not log.periods
    rows = [drawn(300, truth, seed=seed) for seed, truth in enumerate((same, shifted))]
    for number, (forecasts, grades) in enumerate(rows):
        for i, (p, grade) in enumerate(zip(forecasts, grades, strict=True)):
            log.observe(10.0 * number + i / 100, probability=p, success=grade)
    assert [period.began for period in log.periods] == [0.0, 10.0]
    for period, (forecasts, grades) in zip(log.periods, rows, strict=True):
        assert period.error == pytest.approx(expected_calibration_error(forecasts, grades))
        assert period.num_outcomes == 300
    first, second = (period.error for period in log.periods)
    assert first is not None
    assert second is not None
    assert second > first + 0.05


def test_the_noise_is_what_calibrated_forecasts_show() -> None:
    """Over many periods of calibrated outcomes the mean error is the noise that is stated beside it."""
    log = CalibrationLog(period_s=1.0)
    for period in range(100):
        for p, grade in zip(*drawn(200, same, seed=period), strict=True):
            log.observe(float(period), probability=p, success=grade)
    errors = [period.error for period in log.periods if period.error is not None]
    noises = [period.noise for period in log.periods if period.noise is not None]
    assert np.mean(errors) == pytest.approx(np.mean(noises), rel=0.1)


def test_periods_are_bounded_and_outlive_a_restart() -> None:
    """The oldest go; what is saved as JSON goes on in the same period."""
    log = CalibrationLog(period_s=1.0, max_periods=5)
    for second in range(20):
        log.observe(float(second), probability=1.0, success=0.0)
    assert [period.began for period in log.periods] == [15, 16, 17, 18, 19]
    other = CalibrationLog(period_s=1.0, max_periods=5)
    other.restore(json.loads(json.dumps(log.plain())))
    other.observe(19.5, probability=1.0, success=1.0)
    assert other.periods[-1].num_outcomes == 2
    assert other.periods[-1].error == pytest.approx(0.5)
