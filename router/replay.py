"""A decision made again from what was written down of it, to see that it comes out the same.

The forecasts are in the record, so no artifact is needed, and a later one cannot change the answer. How a choice
follows from them is the policy's: a record of another policy version is not replayed.
"""

from __future__ import annotations

from router.choice import Choice, ValueRule, explore
from router.offer import Offer
from router.pricing import Pricing
from router.propensity import PolicyTerms


def replayed(offer: Offer, terms: PolicyTerms, *, price_of_compute: float, lot: float) -> Choice:
    """The choice of the decision that had these.

    Args:
        offer: what was left to choose from.
        terms: what the chances depended on.
        price_of_compute: λ as the request drew it.
        lot: the draw that explores.
    """
    pricing = Pricing(price_of_compute=terms.price_of_compute, metric=terms.metric, spread=terms.spread)
    choice = ValueRule(pricing, price_of_compute).choose(offer)
    if not terms.exploration_share:
        return choice
    return explore(choice, offer, share=terms.exploration_share, uniform=lot)
