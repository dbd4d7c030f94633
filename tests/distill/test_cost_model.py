"""The cost model's laws, and that it is what draft-and-verify does."""

from __future__ import annotations

import random

import pytest

from distill.cost_model import (
    MissingTimeError,
    StepTimes,
    UnprofitableDraftError,
    break_even,
    expected_tokens,
    predict,
    speed_up,
    widths,
)

TIMES = StepTimes(
    engine="none", target_s={1: 10.0, 2: 10.5, 4: 12.0, 8: 16.0}, draft_s={1: 1.0, 2: 1.5, 4: 2.0}
)


def test_limits() -> None:
    """Nothing taken gives one token a round, all taken gives all and one, and one a is the paper's formula."""
    assert expected_tokens([0.0] * 5) == 1
    assert expected_tokens([1.0] * 5) == 6
    assert expected_tokens([]) == 1
    assert expected_tokens([0.8] * 4) == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    assert expected_tokens([0.5, 0.2]) == pytest.approx(1.6)


def test_worked() -> None:
    """Three drafts at a tenth of a step each, verified at 1.2 steps, four of five taken: 2.952 / 1.5."""
    assert speed_up([0.8] * 3, draft_cost=0.1, verify_cost=1.2) == pytest.approx(2.952 / 1.5)


def test_a_draft_that_often_says_nothing_costs_only_where_it_does() -> None:
    """A third of the rounds drafts 3 tokens, all taken, at 2 steps; the others are one step: 2 tokens for 4/3 steps."""
    rates, costs = [1 / 3, 1.0, 1.0], {"draft_cost": 0.1, "verify_cost": 1.7}
    assert speed_up(rates, **costs, proposed_share=1 / 3) == pytest.approx(1.5)
    assert speed_up([0.0] * 3, **costs, proposed_share=0) == 1
    assert speed_up(rates, **costs) == pytest.approx(1)
    (found,) = predict(
        TIMES, {"a": rates}, nums_drafts=[3], nums_streams=[1], proposed_shares={"a": 1 / 3}
    ).predictions
    assert found.speed_ups["a"] == pytest.approx(2 / (1 + (0.3 + 1.2 - 1) / 3))
    with pytest.raises(ValueError, match="that of a does not"):
        predict(TIMES, {"a": rates}, nums_drafts=[3], nums_streams=[1], proposed_shares={"a": 1.1})


def test_monotone() -> None:
    """More acceptance is faster; a dearer draft or verification is slower."""
    by_rate = [speed_up([a / 10] * 4, draft_cost=0.2, verify_cost=1.1) for a in range(11)]
    by_draft = [speed_up([0.6] * 4, draft_cost=c / 10, verify_cost=1.1) for c in range(11)]
    by_verify = [speed_up([0.6] * 4, draft_cost=0.2, verify_cost=1 + v / 10) for v in range(11)]
    assert by_rate == sorted(by_rate)
    assert by_draft == sorted(by_draft, reverse=True)
    assert by_verify == sorted(by_verify, reverse=True)
    assert len(set(by_rate)) == len(set(by_draft)) == len(set(by_verify)) == 11


@pytest.mark.parametrize("num_drafts", [1, 2, 3, 7])
@pytest.mark.parametrize("draft_cost", [0.05, 0.3, 0.6])
def test_break_even(num_drafts: int, draft_cost: float) -> None:
    """There the speed-up is 1, less below and more above."""
    needed = break_even(num_drafts, draft_cost=draft_cost, verify_cost=1.15)
    assert needed is not None
    assert speed_up([needed] * num_drafts, draft_cost=draft_cost, verify_cost=1.15) == pytest.approx(1)
    assert speed_up([needed - 0.01] * num_drafts, draft_cost=draft_cost, verify_cost=1.15) < 1
    assert speed_up([needed + 0.01] * num_drafts, draft_cost=draft_cost, verify_cost=1.15) > 1


def test_break_even_ends() -> None:
    """What costs nothing breaks even at any acceptance; what costs more than a step each breaks even at none."""
    assert break_even(3, draft_cost=0.0, verify_cost=1.0) == 0
    assert break_even(3, draft_cost=1.0, verify_cost=1.2) is None


def test_it_is_what_draft_and_verify_does() -> None:
    """Rounds played with coins and a clock take as long as predicted, within four standard errors."""
    drawn, rate, num_drafts, draft_s, target_s, verify_s = random.Random(5), 0.7, 4, 0.2, 1.0, 1.3
    num_rounds = 20_000
    rounds = []
    for _ in range(num_rounds):
        num_taken = 0
        while num_taken < num_drafts and drawn.random() < rate:
            num_taken += 1
        rounds.append(num_taken + 1)
    seconds = num_rounds * (num_drafts * draft_s + verify_s)
    mean = sum(rounds) / num_rounds
    error = (sum((each - mean) ** 2 for each in rounds) / num_rounds**2) ** 0.5
    played = sum(rounds) * target_s / seconds
    predicted = speed_up([rate] * num_drafts, draft_cost=draft_s / target_s, verify_cost=verify_s / target_s)
    assert abs(played - predicted) < 4 * error * num_rounds * target_s / seconds


def test_predictions() -> None:
    """c and v come from times at the widths of the streams; the best number of drafts is the fastest."""
    assert widths([1, 3], [1, 2]) == [1, 2, 4, 8]
    verdict = predict(TIMES, {"sums": [0.9], "prose": [0.1]}, nums_drafts=[1, 3], nums_streams=[1, 2])
    alone = verdict.predictions[1]
    assert (alone.num_streams, alone.num_drafts) == (1, 3)
    assert (alone.draft_cost, alone.verify_cost) == pytest.approx((0.1, 1.2))
    assert alone.speed_ups["sums"] == pytest.approx(3.439 / 1.5)
    assert verdict.best("sums", 1).num_drafts == 3
    assert verdict.best("prose", 1).num_drafts == 1
    assert verdict.paying == {"sums": [1, 2]}
    verdict.require_paying()


def test_noise_makes_no_verification_cheap() -> None:
    """Four tokens that took less time than one are verified at a whole step, no less."""
    noisy = StepTimes(engine="none", target_s={1: 10.0, 4: 6.0}, draft_s={1: 1.0})
    assert noisy.verify_cost(1, 3) == 1


def test_last_place_holds_for_those_behind() -> None:
    """Rates of two places serve three drafts."""
    short = predict(TIMES, {"a": [0.9, 0.5]}, nums_drafts=[3], nums_streams=[1])
    whole = predict(TIMES, {"a": [0.9, 0.5, 0.5]}, nums_drafts=[3], nums_streams=[1])
    assert short == whole


def test_what_pays_nowhere_is_refused() -> None:
    """The refusal names the nearest and what it would take; a draft as dear as its target can never pay."""
    with pytest.raises(UnprofitableDraftError, match=r"at best 0\.9.*would have to be 0\.15"):
        predict(TIMES, {"a": [0.05]}, nums_drafts=[1, 3], nums_streams=[1]).require_paying()
    dear = StepTimes(engine="none", target_s={1: 1.0, 2: 1.2}, draft_s={1: 1.0})
    with pytest.raises(UnprofitableDraftError, match="no acceptance would do"):
        predict(dear, {"a": [1.0]}, nums_drafts=[1], nums_streams=[1]).require_paying()


def test_what_was_not_timed_is_said() -> None:
    """No time is guessed, and no acceptance beyond 1 is believed."""
    with pytest.raises(MissingTimeError, match="a target step of 3 tokens was not timed"):
        predict(TIMES, {"a": [0.5]}, nums_drafts=[2], nums_streams=[1])
    with pytest.raises(ValueError, match="between 0 and 1; that of a"):
        predict(TIMES, {"a": [1.5]}, nums_drafts=[1], nums_streams=[1])
