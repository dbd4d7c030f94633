"""The value rule: which arm of an offer a request gets, and with what chance.

It is the staircase that the budget controller solves over, so what the controller foresees is what is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from router.offer import Offer
from router.pricing import Pricing
from router.propensity import PolicyTerms, with_lot
from router.staircase import staircase

MIN_CHANCE: Final = 1e-9
"""Rounding can put a λ at the very edge of its band just beyond it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An arm of an offer, and the probability with which it is picked."""

    position: int
    chances: tuple[float, ...]
    """Of each arm of the offer, in its order."""
    is_drawn: bool = False
    """Whether a lot chose it where the rule would have chosen another."""

    @property
    def chance(self) -> float:
        """Of the arm that is picked."""
        return self.chances[self.position]


@dataclass(frozen=True, slots=True)
class ValueRule:
    """What one request's arms are weighed by."""

    pricing: Pricing
    price_of_compute: float
    """λ as the request drew it."""

    def choose(self, offer: Offer) -> Choice:
        """The arm of greatest value, above the offer's floor; its chance is over the band that λ is drawn from."""
        if len(offer.arms) == 1:
            return Choice(0, (1.0,))
        stairs = staircase(offer, self.pricing.metric)
        chosen = stairs.arms[stairs.choose(self.price_of_compute)]
        chances = [0.0] * len(offer.arms)
        if self.pricing.spread:
            of_stairs = stairs.chances(self.pricing.price_of_compute, self.pricing.spread)
            for arm, chance in zip(stairs.arms, of_stairs, strict=True):
                chances[arm] = chance
            chances[chosen] = max(chances[chosen], MIN_CHANCE)
        else:
            chances[chosen] = 1.0
        return Choice(chosen, tuple(chances))

    def terms(self, *, exploration_share: float) -> PolicyTerms:
        """What the chances of the rule's arms depend on, where a lot decides for so many requests."""
        return PolicyTerms(
            metric=self.pricing.metric,
            price_of_compute=self.pricing.price_of_compute,
            spread=self.pricing.spread,
            exploration_share=exploration_share,
        )

    @property
    def undoubted(self) -> ValueRule | None:
        """The rule at the λ that the request would have drawn without doubt; None where doubt has not lowered it."""
        usual = self.pricing.undoubted_price_of_compute
        if usual is None or not self.pricing.price_of_compute:
            return None
        return ValueRule(self.pricing, self.price_of_compute * usual / self.pricing.price_of_compute)

    def falls_short(self, offer: Offer) -> bool:
        """Whether the arm of greatest value is below the floor, so that another is chosen in its place."""
        metric = self.pricing.metric
        best = max(
            offer.arms,
            key=lambda arm: arm.success_probability - self.price_of_compute * metric.price(arm.expected),
        )
        return best.success_probability < offer.quality_floor


def explore(choice: Choice, offer: Offer, *, share: float, uniform: float) -> Choice:
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
    chances = with_lot(offer, choice.chances, share=share)
    return Choice(drawn, chances, is_drawn=drawn != choice.position)
