"""Setbacks: the policy's own tokens, credit for what changed, and neither stubbornness nor fickleness pays."""

from __future__ import annotations

import pytest

from train.codec import CharacterCodec
from train.domains.base import ErrorClass, Item, Verdict
from train.rollouts.rollout import Rollout, Span, StopReason
from train.setbacks import QUESTION, Setback, recovery, second_score, setbacks_of

CODEC = CharacterCodec()


def item(index: int = 0) -> Item:
    return Item(domain="d", level=0, seed=0, index=index, prompt="2+2=")


def rollout(text: str, stop: StopReason = StopReason.END) -> Rollout:
    answer = CODEC.answer(text)
    prompt = Span((CODEC.end_token_id + 1,))
    return Rollout((prompt, Span(answer, (-0.1,) * len(answer), 3)), stop)


def verdict(passed: bool, error: ErrorClass | None = None) -> Verdict:
    evidence = "" if passed else "'5' is not the sum."
    return Verdict(score=float(passed), passed=passed, evidence=evidence, error=error)


def test_second_try_has_the_sampled_tokens() -> None:
    """The first try stands in the prompt as it was sampled, with the evidence behind it."""
    first = rollout("5")
    request = Setback(item(), first, False, "'5' is not the sum.").request(CODEC, (1, 2))
    assert request.token_ids[: len(first.token_ids)] == first.token_ids
    told = CODEC.text(request.token_ids[len(first.token_ids) :])
    assert told == "\n" + QUESTION.format(evidence="'5' is not the sum. ")
    assert request.seeds == (1, 2)


@pytest.mark.parametrize(
    ("was_right", "is_right", "score"),
    [(False, True, 1.5), (False, False, 0.0), (True, True, 1.0), (True, False, -2.0)],
)
def test_change_is_what_counts(was_right: bool, is_right: bool, score: float) -> None:
    """Wrong to right earns more than right; right to wrong less than nothing; no change is plain."""
    setback = Setback(item(), rollout("5"), was_right, "")
    found = second_score(setback, verdict(is_right), wrong_to_right=0.5, right_to_wrong=2.0)
    assert found.score == score


def test_error_is_no_change() -> None:
    """A second try without a verdict is neither rewarded nor punished."""
    setback = Setback(item(), rollout("5"), True, "")
    broken = verdict(False, ErrorClass.TIMED_OUT)
    assert second_score(setback, broken, wrong_to_right=1, right_to_wrong=1) is broken


def test_mostly_failures_of_groups_that_can_succeed() -> None:
    """Of groups with both outcomes one failure each, and some right answers are questioned; hopeless groups are not."""
    mixed = [rollout("4"), rollout("5"), rollout("6", StopReason.LENGTH)]
    told = [verdict(True), verdict(False), verdict(False)]
    hopeless = [rollout("7"), rollout("8")]
    items = [item(index) for index in range(9)]
    rollouts = [*[mixed] * 8, hopeless]
    verdicts = [*[told] * 8, [verdict(False), verdict(False)]]
    found = setbacks_of(items, rollouts, verdicts, num=8, seed=0)
    assert [setback.was_right for setback in found] == [False] * 6 + [True] * 2
    assert all(CODEC.text(setback.first.spans[1].token_ids) == "5" for setback in found[:6])
    assert all(setback.evidence == "" for setback in found[6:])
    assert len({setback.item.id for setback in found[:6]}) == 6
    assert found == setbacks_of(items, rollouts, verdicts, num=8, seed=0)


def test_recovery_by_hand() -> None:
    """Two of three wrong ones recovered, one of two right ones lost: one of five more is right."""
    found = recovery([False, False, False, True, True], [True, True, False, True, False])
    assert (found.recovered, found.lost) == (pytest.approx(2 / 3), 0.5)
    assert found.gain == pytest.approx(1 / 5)
    assert recovery([], []).gain == 0
