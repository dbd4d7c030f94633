"""Which arm one request gets at each price of compute λ: a staircase, from the cheapest arm up as λ falls.

`argmax p − λ·price` picks, for some λ, exactly the corners of the upper convex hull of the points (price, p). Between
two neighbours the choice flips at λ = Δp/Δprice, the *rise* of the step. The request's quality floor replaces the
corners below it. The controller solves over it and the policy picks by it, so that what is foreseen is what is chosen.

A λ may be a *band*: each request draws its own λ from a narrow interval around the controller's (log-uniform, of
relative width `spread`), so that requests that are all alike can be shared out, and the chance of each arm is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, inf, log
from typing import Final

from router.offer import Metric, Offer

MIN_GAIN: Final = 1e-12
"""A dearer arm that is likelier by no more than this is never worth its price."""
MAX_RISE: Final = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase:
    """The arms that some λ > 0 picks, cheapest first."""

    arms: tuple[int, ...]
    """Indices into the offer, each at most once."""
    prices: tuple[float, ...]
    """Of each of `arms`; never falls."""
    probabilities: tuple[float, ...]
    """Of each of `arms`; never falls."""
    log_rises: tuple[float, ...]
    """ln λ at which the choice flips between one of `arms` and the next; never rises, and is one shorter."""
    price_steps: tuple[float, ...]
    probability_steps: tuple[float, ...]
    """What each flip adds: differences of the above, kept because demand sums them again at every tick."""

    def choose(self, price_of_compute: float) -> int:
        """The position in `arms` that λ picks; the dearer one at a flip."""
        at = log(price_of_compute) if price_of_compute > 0 else -inf
        return sum(1 for log_rise in self.log_rises if at <= log_rise)

    def chances(self, price_of_compute: float, spread: float) -> tuple[float, ...]:
        """The chance of each of `arms` when λ is drawn from the band; they sum to 1."""
        reached = [1.0, *(chance_above(rise, price_of_compute, spread) for rise in self.log_rises), 0.0]
        return tuple(lower - upper for lower, upper in pairwise(reached))


def banded(price_of_compute: float, *, spread: float, uniform: float) -> float:
    """The λ of one request, from the band of relative width `spread` around the controller's.

    `uniform` in [0, 1] is the request's own draw; 0.5 gives λ itself.
    """
    return price_of_compute * exp(spread * (uniform - 0.5))


def chance_above(log_rise: float, price_of_compute: float, spread: float) -> float:
    """The chance that a λ drawn from the band is at most the rise, that is, that the step is taken."""
    if price_of_compute <= 0:
        return 1.0
    return min(1.0, max(0.0, (log_rise - log(price_of_compute)) / spread + 0.5))


def staircase(offer: Offer, metric: Metric) -> Staircase:
    """The staircase of `offer` when λ prices `metric`.

    At λ = ∞ the cheapest arm, of equal prices the likeliest. Where that is below the floor: the cheapest arm that
    reaches it; where none does, the likeliest at every λ.
    """
    prices = [metric.price(arm.expected) for arm in offer.arms]
    probabilities = [arm.success_probability for arm in offer.arms]
    reaching = [i for i, p in enumerate(probabilities) if p >= offer.quality_floor]
    if reaching:
        lowest = min(reaching, key=lambda i: (prices[i], -probabilities[i]))
        steps = [(i, rise) for i, rise in _hull(prices, probabilities) if prices[i] > prices[lowest]]
    else:
        lowest, steps = max(range(len(prices)), key=lambda i: (probabilities[i], prices[i])), []
    arms = (lowest, *(i for i, _ in steps))
    return Staircase(
        arms=arms,
        prices=tuple(prices[i] for i in arms),
        probabilities=tuple(probabilities[i] for i in arms),
        log_rises=tuple(accumulate((log(rise) for _, rise in steps), min)),
        price_steps=tuple(prices[up] - prices[low] for low, up in pairwise(arms)),
        probability_steps=tuple(probabilities[up] - probabilities[low] for low, up in pairwise(arms)),
    )


def _hull(prices: Sequence[float], probabilities: Sequence[float]) -> list[tuple[int, float]]:
    """The corners of the upper convex hull from the cheapest arm to the likeliest (Andrew's monotone chain).

    Each comes with the rise of the step that leads to it; that of the first is infinite.
    """

    def rise(low: int, up: int) -> float:
        return min(MAX_RISE, (probabilities[up] - probabilities[low]) / (prices[up] - prices[low]))

    corners: list[tuple[int, float]] = []
    for i in sorted(range(len(prices)), key=lambda i: (prices[i], -probabilities[i])):
        if corners:
            last = corners[-1][0]
            if probabilities[i] - probabilities[last] <= MIN_GAIN or prices[i] == prices[last]:
                continue
            while rise(corners[-1][0], i) >= corners[-1][1]:
                corners.pop()
        corners.append((i, rise(corners[-1][0], i) if corners else inf))
    return corners
