"""Propensities: the chances that a log is weighed by are those by which the policy really picks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.choice import ValueRule, explore
from router.offer import ArmOffer, Metric, Offer, Spend
from router.pricing import Pricing
from router.propensity import PolicyTerms, propensities

GRID = 80

offers = st.builds(
    lambda arms, floor: Offer(
        arms=tuple(
            ArmOffer(success_probability=p, expected=Spend(cost=cost, engine_seconds=0.0, full_share=0.0))
            for p, cost in arms
        ),
        quality_floor=floor,
    ),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9).map(float)), min_size=1, max_size=4),
    st.floats(0, 1),
)


@given(offers, st.floats(0.02, 2), st.sampled_from([0.0, 0.1, 0.8]), st.sampled_from([0.0, 0.1, 0.5]))
@settings(max_examples=25, deadline=None)
def test_they_are_the_shares_of_the_policys_draws(
    offer: Offer, price_of_compute: float, spread: float, share: float
) -> None:
    """Over an even grid of both draws, each arm is picked as often as its propensity says, and a decision that picks
    it states the same."""
    pricing = Pricing(price_of_compute=price_of_compute, metric=Metric.COST_PER_REQUEST, spread=spread)
    terms = PolicyTerms(
        metric=pricing.metric, price_of_compute=price_of_compute, spread=spread, exploration_share=share
    )
    chances = propensities(offer, terms)
    counts: Counter[int] = Counter()
    for i in range(GRID):
        rule = ValueRule(pricing, pricing.drawn((i + 0.5) / GRID))
        choice = rule.choose(offer)
        for j in range(GRID):
            picked = explore(choice, offer, share=share, uniform=(j + 0.5) / GRID)
            counts[picked.position] += 1
            assert picked.chance == pytest.approx(chances[picked.position], abs=1e-6)
    for position, chance in enumerate(chances):
        assert counts[position] / GRID**2 == pytest.approx(chance, abs=2.5 / GRID)
