"""The report: figures of probabilities whose worth is known, beside the baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from router.evaluate import NothingToJudgeError, Report, evaluate
from router.outcome_table import OutcomeTable

NUM = 1500


def drawn() -> tuple[OutcomeTable, np.ndarray]:
    """Outcomes drawn from probabilities that are then the best there can be."""
    generator = np.random.default_rng(0)
    hardness = generator.random(NUM)
    truth = np.stack((1 - hardness, 1 - 0.2 * hardness), axis=1)
    table = OutcomeTable(
        prompts=tuple("x" * int(length) for length in generator.integers(1, 50, NUM)),
        domains=("d",) * NUM,
        arms=("weak", "strong"),
        successes=(generator.random((NUM, 2)) < truth).astype(float),
        num_output_tokens=np.full((NUM, 2), np.nan),
        costs=np.tile([1.0, 5.0], (NUM, 1)),
    )
    return table, truth


TABLE, TRUTH = drawn()


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate(TABLE, TRUTH, np.arange(NUM), np.random.default_rng(1), num_draws=60)


def test_true_probabilities_are_calibrated(report: Report) -> None:
    """The truth shows the calibration error of chance and no more, and its success is the outcomes' share."""
    for arm, place in zip(report.arms, range(2), strict=True):
        assert arm.calibration_error.value == pytest.approx(arm.calibration_noise, abs=0.015)
        assert arm.success.value == TABLE.successes[:, place].mean()
        assert sum(each.num for each in arm.reliability) == arm.num_outcomes == NUM


def test_router_lies_between_random_and_oracle(report: Report) -> None:
    """Random recovers half the gap on average, the truth more, and the oracle most; length, being noise, about half."""
    by_name = {ranking.name: ranking for ranking in report.rankings}
    assert list(by_name) == ["router", "random", "prompt length", "oracle"]
    assert by_name["random"].apgr.value == 0.5
    assert by_name["prompt length"].apgr.value == pytest.approx(0.5, abs=0.06)
    assert 0.62 < by_name["router"].apgr.value < by_name["oracle"].apgr.value
    assert by_name["router"].cpt50.value < by_name["router"].cpt80.value


def test_intervals_hold_their_figures(report: Report) -> None:
    """Each interval contains its figure and has a width."""
    for estimate in (
        report.rankings[0].apgr,
        report.rankings[0].cpt80,
        report.arms[0].auc,
        report.arms[1].brier,
    ):
        assert estimate.low < estimate.value < estimate.high


def test_frontier_begins_and_ends_at_the_arms(report: Report) -> None:
    """With no request to the strong arm success and cost are the weak arm's, with all of them the strong arm's."""
    first, last = report.frontier[0], report.frontier[-1]
    weak, strong = TABLE.successes.mean(axis=0)
    assert (first.strong_share, first.router.value, first.cost) == (0.0, weak, 1.0)
    assert (last.strong_share, last.router.value, last.cost) == (1.0, pytest.approx(strong), 5.0)
    assert (report.weak.success.value, report.strong.success.value) == (weak, pytest.approx(strong))
    assert report.weak.cost is not None
    assert (report.weak.cost.low, report.weak.cost.value, report.weak.cost.high) == (1.0, 1.0, 1.0)
    for point in report.frontier:
        assert max(point.random, point.router.value, point.prompt_length) <= point.oracle + 1e-9


def test_gain_over_random(report: Report) -> None:
    """It is the router's success less random's, certain at both ends, and above nothing in between."""
    for point in report.frontier:
        assert point.over_random.value == pytest.approx(point.router.value - point.random)
    assert report.frontier[0].over_random.high == pytest.approx(0)
    assert report.frontier[-1].over_random.high == pytest.approx(0)
    assert all(point.over_random.low > 0 for point in report.frontier[2:-2])


def test_unknown_costs_and_untried_arms() -> None:
    """Without costs the frontier has none, and prompts that one arm never saw count for the other alone."""
    successes = TABLE.successes.copy()
    successes[:300, 1] = np.nan
    table = replace(TABLE, successes=successes, costs=np.full((NUM, 2), np.nan))
    report = evaluate(table, TRUTH, np.arange(NUM), np.random.default_rng(1), num_draws=5)
    assert [arm.num_outcomes for arm in report.arms] == [NUM, NUM - 300]
    assert report.frontier[0].cost is None
    assert report.strong.cost is None
    assert report.frontier[0].router.value == TABLE.successes[300:, 0].mean()


def test_no_common_prompt() -> None:
    """Arms that were never asked the same prompt cannot be ranked, and the message says what to do."""
    successes = TABLE.successes.copy()
    successes[: NUM // 2, 0] = np.nan
    successes[NUM // 2 :, 1] = np.nan
    with pytest.raises(NothingToJudgeError, match=r"both 'weak' and 'strong'; collect"):
        evaluate(replace(TABLE, successes=successes), TRUTH, np.arange(NUM), np.random.default_rng(1))


def test_one_class_alone() -> None:
    """An arm that never failed has no AUC, and everything else still has its figure."""
    successes = TABLE.successes.copy()
    successes[:, 1] = 1.0
    table = replace(TABLE, successes=successes)
    report = evaluate(table, TRUTH, np.arange(NUM), np.random.default_rng(1), num_draws=5)
    assert np.isnan(report.arms[1].auc.value)
    assert report.arms[1].success.value == 1
    assert report.rankings[0].apgr.value > 0.6
