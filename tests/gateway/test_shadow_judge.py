"""The judge's verdicts: what counts, and what is not counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.arms import Arm, Capabilities, Effort, Price
from router.request import RequestView
from serving.gateway.shadow_judge import (
    MAX_THOUGHT_TOKENS,
    MAX_VERDICT_TOKENS,
    Verdict,
    expected_cost,
    fits,
    grade,
    question,
    verdict_of,
)

JUDGE = Arm(
    name="full",
    tier="full",
    price=Price(input=1.0, output=4.0),
    capabilities=Capabilities(context_tokens=4096),
    strength=1,
)
VIEW = RequestView(endpoint="chat", model="auto", turns=("What is {2 + 2}?",), system="Be brief.")


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("A", Verdict.FIRST),
        (" b.", Verdict.SECOND),
        ("**Tie**", Verdict.TIE),
        ("Answer: B", Verdict.SECOND),
        ("The better answer is A, since", Verdict.FIRST),
        ("Both", None),
        ("", None),
        ("About equal", None),
        ("I cannot say", None),
    ],
)
def test_a_verdict_stands_at_the_beginning(reply: str, verdict: Verdict | None) -> None:
    """One of three words; anything else is none."""
    assert verdict_of(reply) is verdict


@pytest.mark.parametrize(
    ("weaker_first", "weaker_second", "score"),
    [
        (Verdict.FIRST, Verdict.SECOND, 1.0),
        (Verdict.TIE, Verdict.TIE, 1.0),
        (Verdict.SECOND, Verdict.FIRST, 0.0),
        (Verdict.FIRST, Verdict.FIRST, None),
        (Verdict.SECOND, Verdict.SECOND, None),
        (Verdict.FIRST, Verdict.TIE, None),
        (Verdict.TIE, Verdict.SECOND, None),
    ],
)
def test_only_a_verdict_that_survives_the_exchange_counts(
    weaker_first: Verdict, weaker_second: Verdict, score: float | None
) -> None:
    """A judge that prefers a place says nothing of the answers."""
    assert grade(weaker_first, weaker_second) == score


def test_the_question_holds_all_and_is_answered_briefly() -> None:
    """Task, instructions and both answers in their places, braces and all; nothing is left to chance."""
    asked = question(VIEW, "it is {4}", "5", JUDGE)
    text = asked["messages"][0]["content"]
    assert "Be brief." in text
    assert "What is {2 + 2}?" in text
    assert text.index("it is {4}") < text.index("[Answer B]") < text.index("\n5\n")
    assert (asked["temperature"], asked["max_tokens"]) == (0, MAX_VERDICT_TOKENS)
    thinking = question(VIEW, "4", "5", replace(JUDGE, effort=Effort.MEDIUM))
    assert thinking["max_tokens"] == MAX_THOUGHT_TOKENS


def test_what_does_not_fit_is_not_asked() -> None:
    """A context that is too short, or an engine that does not chat."""
    assert fits(VIEW, "4", "5", JUDGE)
    assert not fits(VIEW, "4" * 20_000, "5", JUDGE)
    mute = replace(
        JUDGE, capabilities=Capabilities(context_tokens=4096, endpoints=frozenset({"completions"}))
    )
    assert not fits(VIEW, "4", "5", mute)


def test_both_verdicts_are_paid_for() -> None:
    """Twice the question with both answers, twice the reply."""
    more = expected_cost(VIEW, 400, JUDGE) - expected_cost(VIEW, 0, JUDGE)
    assert more == pytest.approx(2 * (2 * 400 / 4) * 1.0 / 1e6)
    assert expected_cost(VIEW, 0, JUDGE) > 2 * MAX_VERDICT_TOKENS * 4.0 / 1e6
