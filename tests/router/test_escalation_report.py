"""Tests of fitting and judging escalation: on invented outcomes whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from router.arms import Price
from router.calibration import sigmoid
from router.escalation import Band
from router.escalation_fit import Trials, fit_pair, fit_revision, logits
from router.escalation_outcomes import price_of
from router.escalation_play import Answers
from router.escalation_report import EscalationReport, escalation_report
from router.first_tokens import FirstTokens
from router.offer import Metric

NUM = 1500
NUM_FOLDS = 5


def invented(weight: float, seed: int = 0) -> Answers:
    """Prompts of all difficulties, whose margins tell of success by this weight; the next arm's p is 0.8."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 0.8, NUM)
    doubt = rng.normal(size=NUM)
    first = rng.random(NUM) < sigmoid(logits(p) + weight * doubt)
    following = rng.random(NUM) < 0.8
    tokens = [FirstTokens(logprobs=(-1.0,) * 2, margins=(4 + d, 4 + d)) for d in doubt.tolist()]
    ones = np.ones((NUM, 2))
    return Answers(
        trials=Trials(
            forecasts=np.column_stack((p, np.full(NUM, 0.8))),
            successes=np.column_stack((first, following)).astype(float),
            tokens=tokens,
        ),
        num_input_tokens=50 * ones,
        num_output_tokens=20 * ones,
        prices=(Price(input=0.2, output=0.8), Price(input=1.0, output=4.0)),
    )


def report(answers: Answers, metric: Metric = Metric.COST_PER_REQUEST) -> EscalationReport:
    places: NDArray[np.int64] = np.arange(NUM)
    generator = np.random.default_rng(1)
    return escalation_report(
        answers,
        places,
        places % NUM_FOLDS,
        generator,
        metric=metric,
        num_tokens=2,
        band=Band(low=0.0, high=0.9),
        num_draws=200,
    )


def test_tokens_that_tell_much_pay() -> None:
    """Where the margin all but settles the answer, escalating beats predicting alone, by either metric."""
    for metric in (Metric.COST_PER_REQUEST, Metric.FULL_SHARE):
        told = report(invented(weight=4.0), metric)
        assert told.pays
        assert told.information.low > 0
        assert told.points[3].gain.value > 0.05
        assert 0 < told.escalated_share <= told.held_share <= 1


def test_tokens_that_tell_nothing_do_not_pay() -> None:
    """Where the margin is chance, the report claims no gain."""
    told = report(invented(weight=0.0))
    assert not told.pays
    assert told.information.low < 0.001
    assert told.mean_gain.value < 0.005


def test_both_frontiers_end_at_the_first_arm_always() -> None:
    """At an expense near the first arm's both have nearly its success, and expense grows with the budget."""
    answers = invented(weight=2.0)
    told = report(answers)
    first = float(answers.trials.successes[:, 0].mean())
    assert told.points[0].alone.value < first + 0.1
    expenses = [point.expense for point in told.points]
    assert expenses == sorted(expenses)
    costs = answers.costs().mean(axis=0)
    assert expenses[3] == pytest.approx(costs.mean())


def test_worked_costs() -> None:
    """50 tokens in and 20 out; given up after 8 it was 8 out, and an answer shorter than that costs what it is."""
    answers = invented(weight=0.0)
    assert answers.costs()[0] == pytest.approx([(10 + 16) / 1e6, (50 + 80) / 1e6])
    assert answers.wasted_costs(8)[0] == pytest.approx((10 + 6.4) / 1e6)
    assert answers.wasted_costs(64)[0] == pytest.approx(answers.costs()[0, 0])


def test_a_revision_is_recovered() -> None:
    """Of many outcomes the truth comes back; of none but a few the forecast is trusted."""
    rng = np.random.default_rng(0)
    p, s = rng.uniform(0.05, 0.95, 20_000), rng.normal(2.0, 3.0, 20_000)
    y = (rng.random(20_000) < sigmoid(-0.5 + 0.7 * logits(p) + 0.4 * s)).astype(float)
    _, revision = fit_revision(p, s, y)
    assert (revision.intercept, revision.slope, revision.weight) == pytest.approx((-0.5, 0.7, 0.4), abs=0.06)
    _, little = fit_revision(p[:2], s[:2], y[:2])
    assert little(0.3, float(s[:2].mean())) == pytest.approx(0.3, abs=0.15)


def test_the_telling_statistic_is_chosen() -> None:
    """Log-probabilities that are all alike lose to margins that tell; the lowest is about the least there is."""
    trials = invented(weight=3.0).trials
    pair = fit_pair(trials, first="fast", next="full", num_tokens=(2,))
    assert pair.statistic in ("mean_margin", "min_margin")
    assert pair.revise_first.weight > 1
    margins = trials.statistic(pair.statistic, 2)
    assert np.mean(margins < pair.lowest) == pytest.approx(0.02, abs=0.002)


def test_prices_are_read_off_the_costs() -> None:
    """Costs are linear in tokens, so that the price comes back exactly."""
    inputs, outputs = np.array([10.0, 50, 90]), np.array([5.0, 7, 1])
    price = price_of(inputs, outputs, (0.2 * inputs + 0.8 * outputs) / 1e6)
    assert (price.input, price.output) == pytest.approx((0.2, 0.8))
