"""The chance with which a policy picks each arm of an offer: what a decision's propensity is one number of.

The policy draws λ from a band and, for an exploration share of requests, an arm by lot among those that reach the
request's quality floor. Arms below the floor, beyond the client's limits or down are never drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from router.offer import Metric, Offer
from router.staircase import Staircase, staircase


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerms:
    """All that the chance of an arm depends on, beside the offer."""

    metric: Metric
    price_of_compute: float
    """λ at the middle of the band."""
    spread: float
    """0 for no band."""
    exploration_share: float = 0.0


def propensities(offer: Offer, terms: PolicyTerms) -> tuple[float, ...]:
    """The chance of each arm of `offer`, in its order; they sum to 1."""
    return propensities_by(staircase(offer, terms.metric), offer, terms)


def propensities_by(stairs: Staircase, offer: Offer, terms: PolicyTerms) -> tuple[float, ...]:
    """The same, where the staircase of `offer` in the metric of `terms` is at hand."""
    by_rule = [0.0] * len(offer.arms)
    for arm, chance in zip(stairs.arms, _chances(stairs, terms), strict=True):
        by_rule[arm] = chance
    return with_lot(offer, by_rule, share=terms.exploration_share)


def with_lot(offer: Offer, by_rule: Sequence[float], *, share: float) -> tuple[float, ...]:
    """The chances `by_rule` where for a `share` of requests a lot decides, among the arms that reach the floor."""
    lot = [arm.success_probability >= offer.quality_floor for arm in offer.arms]
    if not share or not any(lot):
        return tuple(by_rule)
    return tuple(
        (1 - share) * chance + share * is_in_lot / sum(lot)
        for chance, is_in_lot in zip(by_rule, lot, strict=True)
    )


def _chances(stairs: Staircase, terms: PolicyTerms) -> tuple[float, ...]:
    if terms.spread:
        return stairs.chances(terms.price_of_compute, terms.spread)
    chosen = stairs.choose(terms.price_of_compute)
    return tuple(float(i == chosen) for i in range(len(stairs.arms)))
