"""Tests of router.escalation: the rule, by worked numbers and laws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.arms import Arm, Capabilities, Price
from router.decision import Decision, Exclusion, Reason
from router.difficulty import Forecast, StructuralHeuristic
from router.escalation import Band, EscalationModel, PairModel, Revision, model_from_members, plan_hold
from router.first_tokens import FirstTokens
from router.policy import RoutingPolicy
from router.pricing import Pricing
from router.request import RequestView

PAIR = PairModel(
    first="fast",
    next="full",
    statistic="min_margin",
    num_tokens=2,
    lowest=0.0,
    revise_first=Revision(intercept=0.0, slope=1.0, weight=0.5),
    revise_next=Revision(intercept=0.0, slope=1.0, weight=0.0),
)
MODEL = EscalationModel((PAIR,))
ALL = Band(low=0.0, high=1.0)
VIEW = RequestView(endpoint="chat", model="auto", turns=("hi",), num_chars=2)
CAN = Capabilities(context_tokens=4096)
ARMS = (
    Arm(name="fast", tier="fast", price=Price(input=0, output=10), capabilities=CAN, strength=0),
    Arm(name="full", tier="full", price=Price(input=0, output=100), capabilities=CAN, strength=1),
)
NUM_TOKENS = 100.0
"""Of every answer: `full` costs 0.01, `fast` a tenth of it."""


def decide(
    view: RequestView = VIEW, *, fast: float = 0.5, full: float = 0.7, price: float = 50.0
) -> Decision:
    forecasts = {
        arm: Forecast(success_probability=p, num_output_tokens=NUM_TOKENS)
        for arm, p in (("fast", fast), ("full", full))
    }
    pricing = Pricing(price_of_compute=price)
    return RoutingPolicy(StructuralHeuristic()).decide(view, ARMS, pricing, forecasts=forecasts)


def tokens(*margins: float) -> FirstTokens:
    return FirstTokens(logprobs=(-1.0,) * len(margins), margins=margins)


def test_a_revision_that_says_nothing_leaves_the_forecast() -> None:
    """With slope 1 and no weight the forecast stays; 1 of margin at weight 0.5 is half a unit of log odds."""
    assert PAIR.revise_next(0.7, 9.0) == pytest.approx(0.7)
    assert PAIR.revise_first(0.5, 1.0) == pytest.approx(0.6225, abs=1e-4)
    assert 0 < PAIR.revise_first(0.0, 0.0) < PAIR.revise_first(1.0, 0.0) < 1


def test_worked_number() -> None:
    """λ 15 and a cost of 0.01 ask for a gain above 0.15: 0.7 − 0.5 has it, 0.7 − 0.6225 has not."""
    decision = decide(price=25.0)
    assert decision.arm == "fast"
    hold = plan_hold(VIEW, replace(decision, price_of_compute=15.0), MODEL, ALL)
    assert hold is not None
    assert hold.price == pytest.approx(0.15)
    assert hold.is_worth_it(tokens(3.0, 0.0))
    assert not hold.is_worth_it(tokens(3.0, 1.0))
    assert hold.is_worth_it(tokens(3.0, 0.0, 9.0)), "no token beyond those that the model looks at counts"
    assert not hold.is_worth_it(tokens())


@pytest.mark.parametrize("margin", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_a_higher_price_never_escalates_more(margin: float) -> None:
    """What is not worth it at one λ is not at a higher one; nor what is surer."""
    decisions = [
        replace(decide(price=30.0), price_of_compute=price) for price in (1.0, 5.0, 10.0, 20.0, 40.0)
    ]
    plans = [plan_hold(VIEW, decision, MODEL, ALL) for decision in decisions]
    worth = [plan is not None and plan.is_worth_it(tokens(margin, margin)) for plan in plans]
    assert worth == sorted(worth, reverse=True)
    surer = [plan is not None and plan.is_worth_it(tokens(margin + 1, margin + 1)) for plan in plans]
    assert all(before or not after for before, after in zip(worth, surer, strict=True))


def test_what_could_not_be_escalated_is_not_held() -> None:
    """Where even the most doubtful beginning would not move the request, nothing is held back."""
    assert plan_hold(VIEW, replace(decide(price=30.0), price_of_compute=19.9), MODEL, ALL) is not None
    assert plan_hold(VIEW, replace(decide(price=30.0), price_of_compute=20.1), MODEL, ALL) is None


@pytest.mark.parametrize(
    "view",
    [
        replace(VIEW, num_choices=2),
        replace(VIEW, num_tools=1),
        replace(VIEW, is_tool_loop=True),
        replace(VIEW, needs_schema=True),
        replace(VIEW, endpoint="completions"),
        replace(VIEW, max_cost=0.0105),
    ],
    ids=["choices", "tools", "tool loop", "schema", "completions", "cost"],
)
def test_requests_that_are_never_held(view: RequestView) -> None:
    """One free text is judged by its beginning, and only where both attempts are affordable."""
    decision = replace(decide(price=30.0), price_of_compute=10.0)
    assert plan_hold(VIEW, decision, MODEL, ALL) is not None
    assert plan_hold(replace(VIEW, max_cost=0.0115), decision, MODEL, ALL) is not None
    assert plan_hold(view, decision, MODEL, ALL) is None


@pytest.mark.parametrize(
    "reason", [r for r in Reason if r.value not in ("best_value", "quality_floor", "session_memory")]
)
def test_decisions_that_stand(reason: Reason) -> None:
    """What a client, a lot, a pin or a lack of choice decided is not decided again."""
    decision = replace(decide(price=30.0), price_of_compute=10.0, reason=reason)
    assert plan_hold(VIEW, decision, MODEL, ALL) is None


def test_an_excluded_arm_is_not_gone_up_to() -> None:
    """The next arm must have been open to the request."""
    decision = replace(decide(price=30.0), price_of_compute=10.0)
    excluded = tuple(
        replace(candidate, excluded=Exclusion.UNAVAILABLE) if candidate.arm == "full" else candidate
        for candidate in decision.candidates
    )
    assert plan_hold(VIEW, replace(decision, candidates=excluded), MODEL, ALL) is None


def test_band_and_an_empty_model() -> None:
    """Outside the band, or without a model, nothing is held; the band's ends belong to it."""
    decision = replace(decide(price=30.0), price_of_compute=10.0)
    assert plan_hold(VIEW, decision, MODEL, Band(low=0.5, high=0.5)) is not None
    assert plan_hold(VIEW, decision, MODEL, Band(low=0.51, high=1.0)) is None
    assert plan_hold(VIEW, decision, MODEL, Band(low=0.0, high=0.49)) is None
    assert plan_hold(VIEW, decision, EscalationModel(()), ALL) is None


def test_longest_that_may_be_held() -> None:
    """Of models that look at 2, 4 and 8 tokens, at most 5 leave the one of 4, and at most 1 none."""
    model = EscalationModel(tuple(replace(PAIR, num_tokens=num) for num in (8, 2, 4)))
    assert [pair.num_tokens for pair in model.within(5).pairs] == [4]
    assert model.within(1).pairs == ()


def test_round_trip() -> None:
    """A model is its members; those of another version, or of no known statistic, are refused."""
    assert model_from_members(MODEL.as_members()) == MODEL
    with pytest.raises(ValueError, match="version 2"):
        model_from_members({**MODEL.as_members(), "version": 2})
    members = MODEL.as_members()
    members["pairs"][0]["statistic"] = "luck"
    with pytest.raises(ValueError, match="no statistic 'luck'"):
        model_from_members(members)
    with pytest.raises(ValueError, match="no escalation model"):
        model_from_members({"version": 1, "pairs": [{"statistic": "min_margin"}]})
