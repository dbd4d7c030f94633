"""The value rule: which arm of an offer a request gets, and with what chance.

It is the staircase that the budget controller solves over, so what the controller foresees is what is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from router.offer import Offer
from router.pricing import Pricing
from router.staircase import Staircase, staircase

MIN_CHANCE: Final = 1e-9
"""Rounding can put a λ at the very edge of its band just beyond it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An arm of an offer, and the probability with which it is picked."""

    position: int
    chance: float = 1.0
    is_drawn: bool = False
    """Whether a lot chose it where the rule would have chosen another."""


@dataclass(frozen=True, slots=True)
class ValueRule:
    """What one request's arms are weighed by."""

    pricing: Pricing
    price_of_compute: float
    """λ as the request drew it."""

    def choose(self, offer: Offer) -> Choice:
        """The arm of greatest value, above the offer's floor; its chance is over the band that λ is drawn from."""
        if len(offer.arms) == 1:
            return Choice(0)
        stairs = staircase(offer, self.pricing.metric)
        at = stairs.choose(self.price_of_compute)
        return Choice(stairs.arms[at], self._chance(stairs, at))

    def chance(self, offer: Offer, position: int) -> float:
        """The chance that `choose` picks the arm at `position`."""
        stairs = staircase(offer, self.pricing.metric)
        if position not in stairs.arms:
            return 0.0
        at = stairs.arms.index(position)
        if not self.pricing.spread:
            return float(at == stairs.choose(self.price_of_compute))
        return self._chance(stairs, at)

    def falls_short(self, offer: Offer) -> bool:
        """Whether the arm of greatest value is below the floor, so that another is chosen in its place."""
        metric = self.pricing.metric
        best = max(
            offer.arms,
            key=lambda arm: arm.success_probability - self.price_of_compute * metric.price(arm.expected),
        )
        return best.success_probability < offer.quality_floor

    def _chance(self, stairs: Staircase, at: int) -> float:
        if not self.pricing.spread:
            return 1.0
        return max(MIN_CHANCE, stairs.chances(self.pricing.price_of_compute, self.pricing.spread)[at])


def explore(choice: Choice, rule: ValueRule, offer: Offer, *, share: float, uniform: float) -> Choice:
    """`choice`, or one drawn by lot: with probability `share`, each arm that reaches the floor alike.

    Args:
        choice: the rule's own.
        share: in [0, 1].
        uniform: the request's draw; below `share` it says which arm.
    """
    lot = [i for i, arm in enumerate(offer.arms) if arm.success_probability >= offer.quality_floor]
    if len(lot) < 2 or choice.position not in lot:
        return choice
    drawn = lot[int(uniform / share * len(lot))] if uniform < share else choice.position
    is_drawn = drawn != choice.position
    by_rule = rule.chance(offer, drawn) if is_drawn else choice.chance
    return Choice(drawn, (1 - share) * by_rule + share / len(lot), is_drawn=is_drawn)
