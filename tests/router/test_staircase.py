"""The staircase of one request: the policy's own choice at every λ, and the chances under a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.arms import Arm, Capabilities, Price
from router.difficulty import Forecast
from router.offer import ArmOffer, Metric, Offer, Spend, offer_of
from router.policy import RoutingPolicy
from router.request import RequestView
from router.staircase import banded, staircase

VIEW = RequestView(endpoint="chat", model="auto", turns=("hi",), num_chars=2)


def offer(*arms: tuple[float, float], floor: float = 0.0) -> Offer:
    """Arms as (p, cost)."""
    return Offer(
        arms=tuple(
            ArmOffer(success_probability=p, expected=Spend(cost=cost, engine_seconds=0.0, full_share=0.0))
            for p, cost in arms
        ),
        quality_floor=floor,
    )


sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)
offers = st.builds(
    lambda arms, floor: offer(*arms, floor=floor),
    st.lists(st.tuples(sixty_fourths, st.integers(0, 8).map(float)), min_size=1, max_size=6),
    sixty_fourths,
)
# Rises are n/64/d with d ≤ 8; a multiple of 1/1009 that is no whole number never equals one, so there are no ties.
prices_of_compute = st.integers(1, 4000).filter(lambda n: n % 1009).map(lambda n: n / 1009)


@dataclass(frozen=True)
class Fixed:
    """A model that says what the offer says; a million tokens an answer."""

    offer: Offer
    version: str = "fixed"

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> dict[str, Forecast]:
        return {
            arm.name: Forecast(success_probability=offered.success_probability, num_output_tokens=1e6)
            for arm, offered in zip(arms, self.offer.arms, strict=True)
        }

    def contributions(self, view: RequestView) -> dict[str, float]:
        return {}


def arms_of(offered: Offer) -> tuple[Arm, ...]:
    """The dearer an arm, the stronger its tier."""
    return tuple(
        Arm(
            name=str(i),
            tier=str(i),
            price=Price(input=0, output=arm.expected.cost),
            capabilities=Capabilities(context_tokens=4096),
            strength=round(arm.expected.cost),
        )
        for i, arm in enumerate(offered.arms)
    )


@given(offers, prices_of_compute)
def test_it_chooses_as_the_policy_does(offered: Offer, price_of_compute: float) -> None:
    """At every λ the staircase has the p and the cost of the arm that `RoutingPolicy` picks, floor and all."""
    policy = RoutingPolicy(Fixed(offered), price_of_compute, offered.quality_floor)
    decision = policy.decide(VIEW, arms_of(offered))
    stairs = staircase(offered, Metric.COST_PER_REQUEST)
    at = stairs.choose(price_of_compute)
    assert (stairs.probabilities[at], stairs.prices[at]) == (
        decision.success_probability,
        decision.expected_cost,
    )


@given(offers)
def test_it_only_goes_up(offered: Offer) -> None:
    """Prices and probabilities never fall along the staircase, rises never grow, and no arm stands on two steps."""
    stairs = staircase(offered, Metric.COST_PER_REQUEST)
    assert list(stairs.prices) == sorted(stairs.prices)
    assert list(stairs.probabilities) == sorted(stairs.probabilities)
    assert list(stairs.log_rises) == sorted(stairs.log_rises, reverse=True)
    assert len(set(stairs.arms)) == len(stairs.arms) == len(stairs.log_rises) + 1


@given(offers, prices_of_compute, st.floats(0.01, 1.0))
def test_chances_are_the_shares_of_the_band(offered: Offer, price_of_compute: float, spread: float) -> None:
    """The chance of each arm is the share of uniform draws whose banded λ picks it."""
    stairs = staircase(offered, Metric.COST_PER_REQUEST)
    chances = stairs.chances(price_of_compute, spread)
    num_draws = 2000
    counts = [0] * len(stairs.arms)
    for i in range(num_draws):
        uniform = (i + 0.5) / num_draws
        counts[stairs.choose(banded(price_of_compute, spread=spread, uniform=uniform))] += 1
    assert sum(chances) == pytest.approx(1.0)
    assert min(chances) >= 0
    for chance, count in zip(chances, counts, strict=True):
        assert chance == pytest.approx(count / num_draws, abs=1.5 / num_draws)


def test_worked_example() -> None:
    """Three arms: (.5, 1), (.6, 3), (.9, 4). The middle one lies below the line and is never picked."""
    stairs = staircase(offer((0.6, 3.0), (0.5, 1.0), (0.9, 4.0)), Metric.COST_PER_REQUEST)
    assert stairs.arms == (1, 2)
    assert stairs.log_rises == pytest.approx([log(0.4 / 3)])


@pytest.mark.parametrize(
    ("floor", "prices"),
    [
        (0.0, [1.0, 2.0, 6.0]),
        (0.55, [2.0, 6.0]),  # the cheapest that reaches it
        (0.65, [4.0, 6.0]),  # on no hull, yet the cheapest that reaches it
        (0.95, [6.0]),  # none reaches it: the likeliest, at any λ
    ],
)
def test_the_floor_replaces_the_corners_below_it(floor: float, prices: list[float]) -> None:
    """Corners below the floor give way to the cheapest arm that reaches it."""
    stairs = staircase(
        offer((0.5, 1.0), (0.6, 2.0), (0.7, 4.0), (0.9, 6.0), floor=floor), Metric.COST_PER_REQUEST
    )
    assert list(stairs.prices) == prices


@pytest.mark.parametrize(
    ("metric", "prices"),
    [
        (Metric.FULL_SHARE, (0.0, 1.0)),
        (Metric.COST_PER_REQUEST, (2.0, 7.0)),
        (Metric.COST_PER_HOUR, (2.0, 7.0)),
        (Metric.ENGINE_SECONDS_PER_REQUEST, (0.5, 3.0)),
    ],
)
def test_each_metric_has_its_own_price(metric: Metric, prices: tuple[float, float]) -> None:
    """λ multiplies what the metric counts: full-tier requests, money, or seconds."""
    arms = (
        ArmOffer(success_probability=0.5, expected=Spend(cost=2.0, engine_seconds=0.5, full_share=0.0)),
        ArmOffer(success_probability=0.9, expected=Spend(cost=7.0, engine_seconds=3.0, full_share=1.0)),
    )
    assert staircase(Offer(arms=arms), metric).prices == prices


def test_at_no_price_the_likeliest_is_chosen() -> None:
    """λ = 0 is the top of the staircase, λ = ∞ its foot; an equal arm that costs more is on neither."""
    stairs = staircase(offer((0.5, 1.0), (0.9, 2.0), (0.9, 3.0)), Metric.COST_PER_REQUEST)
    assert (stairs.choose(0.0), stairs.choose(inf)) == (1, 0)
    assert stairs.prices == (1.0, 2.0)
    assert stairs.chances(0.0, 0.1) == (0.0, 1.0)


def test_a_gain_too_small_to_price_is_no_step() -> None:
    """A gain of one unit in the last place, or a price beyond all measure, makes no step and no error."""
    assert staircase(offer((0.5, 1.0), (0.5 + 1e-16, 2.0)), Metric.COST_PER_REQUEST).arms == (0,)
    assert staircase(offer((0.5, 0.0), (0.9, 5e-324)), Metric.COST_PER_REQUEST).log_rises == (log(1e300),)


@pytest.mark.parametrize("wrong", [float("nan"), inf, -1.0])
def test_an_offer_of_nonsense_is_refused(wrong: float) -> None:
    """What would poison every mean of the window does not get into it."""
    with pytest.raises(ValueError, match="finite and at least 0"):
        offer((0.5, wrong))
    with pytest.raises(ValueError, match="at least one arm"):
        Offer(arms=())


def test_the_offer_of_a_decision() -> None:
    """Excluded candidates are left out; one that is down says that the offer is curtailed."""
    offered = offer((0.5, 1.0), (0.9, 4.0))
    weak, strong = arms_of(offered)
    decision = RoutingPolicy(Fixed(offered), 0.0).decide(VIEW, (weak, strong))
    made, names = offer_of(decision.candidates, full_arms={"1"}, engine_seconds={"0": 2.0}, quality_floor=0.3)
    assert names == ("0", "1")
    assert [arm.expected for arm in made.arms] == [
        Spend(cost=1.0, engine_seconds=2.0, full_share=0.0),
        Spend(cost=4.0, engine_seconds=0.0, full_share=1.0),
    ]
    assert (made.quality_floor, made.is_curtailed) == (0.3, False)

    down = RoutingPolicy(Fixed(offered), 0.0).decide(VIEW, (weak, replace(strong, is_available=False)))
    made, names = offer_of(down.candidates, full_arms={"1"}, engine_seconds={})
    assert (names, made.is_curtailed) == (("0",), True)
