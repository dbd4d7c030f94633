"""What another λ, or another target, would have cost and lost: doubly robust estimates from the log, or an honest no.

For a policy π and a log made with propensities μ, the value of a request is estimated as

    Σ_a π(a)·q(a)  +  π(c)/μ(c) · (y − q(c))        (Dudík, Langford, Li: arXiv 1103.4601)

with the arm c that was chosen, what came of it, y, and what was expected of each arm, q: the forecast of success, or
the expected spend. It is unbiased wherever π goes only where μ goes too, however wrong q is; a good q makes it precise.
Outcomes are known of a part of the requests only. That part is taken to be a random one among the requests of an arm:
where clients grade bad answers rather than good ones, the estimates of success are as biased as their grades.

What a request's past made of it, a session's memory or a pin, is taken as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from router.demand import demand
from router.interval import Estimate, Vector, mean_estimate
from router.offer import ArmOffer, Metric, Offer, Spend
from router.propensity import PolicyTerms, propensities_by
from router.staircase import Staircase, staircase
from router.support import Lack, Weights

BLOCK: Final = 500
"""Decisions that a target is held over, about as many as the controller looks at."""

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """One request of the log."""

    offer: Offer
    arms: tuple[str, ...]
    """The names of the offer's arms."""
    chosen: int
    """The position of the one that was chosen."""
    propensities: tuple[float, ...]
    """Of each arm of the offer, when it was decided; above 0 for the chosen one."""
    is_forced: bool = False
    """Whether no lot could have decided, at any exploration share."""
    realised: Spend | None = None
    """What all its attempts took; None where it did not come to that."""
    success: float | None = None
    """In [0, 1]; None where nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity under the other policy and under the logged one; `lack` says why it is not known."""

    num_outcomes: int
    num_supporting: float
    """Outcomes, effectively, of requests that went where they would be moved to, or of those that would be moved if
    these are fewer."""
    observed: float | None = None
    """The mean of the outcomes as they are; None where there is none."""
    estimate: Estimate | None = None
    logged: Estimate | None = None
    change: Estimate | None = None
    """Of the one less the other; sharper than both, since it is paired."""
    lack: Lack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer."""

    num_decisions: int
    moved_share: float
    """Share of requests that would have gone to another arm."""
    unsupported_share: float
    """Share that would have gone where the log never goes."""
    shares: Mapping[str, float]
    """Of requests, by arm."""
    logged_shares: Mapping[str, float]
    """The same of the log: what its policy gave each arm, over its own draws."""
    expected: float
    """What a request would be forecast to take: the target, where there is one and it is in reach."""
    success: Comparison
    cost: Comparison
    taken: Comparison
    """In the unit of the metric of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantity:
    """Something that a request comes to."""

    forecasts: Matrix  # (decisions, arms)
    is_known: npt.NDArray[np.bool_]  # (decisions,)
    observed: float | None
    surprises: (
        Vector  # (decisions,): outcome less forecast, each for all of its arm whose outcome is not known
    )


class Hindsight:
    """A log that can be asked what would have been, in one metric."""

    def __init__(self, log: Sequence[LoggedDecision], metric: Metric) -> None:
        if not log:
            raise ValueError("an empty log says nothing")
        self._log = log
        self._metric = metric
        self._width = max(len(decision.arms) for decision in log)
        self._arms = sorted({name for decision in log for name in decision.arms})
        number = {name: i for i, name in enumerate(self._arms)}
        self._numbers = self._matrix([[number[name] for name in d.arms] for d in log]).astype(np.int64)
        self._old = self._matrix([decision.propensities for decision in log])
        self._rows = np.arange(len(log))
        self._chosen = np.array([decision.chosen for decision in log])
        self._success = self._quantity(lambda arm: arm.success_probability, lambda d: d.success)
        self._cost = self._spend(Metric.COST_PER_REQUEST)
        self._taken = self._spend(metric)

    def at_price(self, price_of_compute: float, *, spread: float, exploration_share: float = 0.0) -> WhatIf:
        """What the log would have come to under this λ, the same for all of it."""
        terms = PolicyTerms(
            metric=self._metric,
            price_of_compute=price_of_compute,
            spread=spread,
            exploration_share=exploration_share,
        )
        return self.compare(self._propensities(0, len(self._log), terms))

    def at_target(
        self, target: float, *, spread: float, exploration_share: float = 0.0, block: int = BLOCK
    ) -> WhatIf:
        """What the log would have come to under a controller that holds `target`, per request.

        λ is solved anew for every `block` of decisions, by their own offers: the controller is taken to have been
        right. What the lot takes is in the target too. Of a target out of reach, the λ that comes nearest.
        """
        chances: list[tuple[float, ...]] = []
        for begin in range(0, len(self._log), block):
            end = min(begin + block, len(self._log))
            curve = demand(self._stairs[begin:end], spread=spread)
            left = self._left_to_the_rule(target, begin, end, exploration_share)
            terms = PolicyTerms(
                metric=self._metric,
                price_of_compute=curve.price_of_compute_for(left) if curve else 0.0,
                spread=spread,
                exploration_share=exploration_share,
            )
            chances += self._propensities(begin, end, terms)
        return self.compare(chances)

    def compare(self, chances: Sequence[Sequence[float]]) -> WhatIf:
        """What the log would have come to under any other policy, given by its chances for each decision's offer."""
        new, old = self._matrix(chances), self._old
        weights = Weights(
            new=new[self._rows, self._chosen],
            old=old[self._rows, self._chosen],
            # Total variation: the least share of requests that changes its arm.
            moved_share=float(np.maximum(0.0, new - old).sum(axis=1).mean()),
            unsupported_share=float(np.where(old > 0, 0.0, new).sum(axis=1).mean()),
        )

        return WhatIf(
            num_decisions=len(self._log),
            moved_share=weights.moved_share,
            unsupported_share=weights.unsupported_share,
            shares=self._shares(new),
            logged_shares=self._shares(old),
            expected=float((new * self._taken.forecasts).sum(axis=1).mean()),
            success=self._comparison(self._success, new, weights),
            cost=self._comparison(self._cost, new, weights),
            taken=self._comparison(self._taken, new, weights),
        )

    @cached_property
    def _stairs(self) -> list[Staircase]:
        return [staircase(decision.offer, self._metric) for decision in self._log]

    def _spend(self, metric: Metric) -> _Quantity:
        def came(decision: LoggedDecision) -> float | None:
            return None if decision.realised is None else metric.price(decision.realised)

        return self._quantity(lambda arm: metric.price(arm.expected), came)

    def _quantity(
        self, expected: Callable[[ArmOffer], float], came: Callable[[LoggedDecision], float | None]
    ) -> _Quantity:
        forecasts = self._matrix([[expected(arm) for arm in decision.offer.arms] for decision in self._log])
        outcomes = [came(decision) for decision in self._log]
        is_known = np.array([outcome is not None for outcome in outcomes])
        values = np.array([0.0 if outcome is None else outcome for outcome in outcomes])
        missed = np.where(is_known, values - forecasts[self._rows, self._chosen], 0.0)
        return _Quantity(
            forecasts=forecasts,
            is_known=is_known,
            observed=float(values[is_known].mean()) if is_known.any() else None,
            surprises=missed * self._inverse_shares(is_known),
        )

    def _comparison(self, quantity: _Quantity, new: Matrix, weights: Weights) -> Comparison:
        num_outcomes = int(quantity.is_known.sum())
        num_supporting = weights.num_supporting(quantity.is_known)
        lack = weights.lack(num_outcomes, num_supporting)
        known = Comparison(
            num_outcomes=num_outcomes, num_supporting=num_supporting, observed=quantity.observed, lack=lack
        )
        if lack is not None:
            return known
        weighed = weights.new / weights.old * quantity.surprises
        then = (new * quantity.forecasts).sum(axis=1) + weighed
        now = (self._old * quantity.forecasts).sum(axis=1) + quantity.surprises
        return replace(
            known, estimate=mean_estimate(then), logged=mean_estimate(now), change=mean_estimate(then - now)
        )

    def _propensities(self, begin: int, end: int, terms: PolicyTerms) -> list[tuple[float, ...]]:
        without_lot = PolicyTerms(
            metric=terms.metric, price_of_compute=terms.price_of_compute, spread=terms.spread
        )
        return [
            propensities_by(stairs, decision.offer, without_lot if decision.is_forced else terms)
            for stairs, decision in zip(self._stairs[begin:end], self._log[begin:end], strict=True)
        ]

    def _left_to_the_rule(self, target: float, begin: int, end: int, share: float) -> float:
        """What the rule may take of a request so that, with what the lot takes, it is `target`."""
        if not share:
            return target
        pairs = zip(self._stairs[begin:end], self._log[begin:end], strict=True)
        by_lot = [_price_by_lot(stairs, decision.offer, self._metric) for stairs, decision in pairs]
        return (target - share * sum(by_lot) / len(by_lot)) / (1 - share)

    def _inverse_shares(self, is_known: npt.NDArray[np.bool_]) -> Vector:
        """For each decision: how many of its arm's stand behind each one whose outcome is known."""
        arms = self._numbers[self._rows, self._chosen]
        every = np.bincount(arms, minlength=len(self._arms)).astype(np.float64)
        known = np.bincount(arms, weights=is_known, minlength=len(self._arms))
        return np.asarray(np.divide(every, known, out=np.zeros_like(every), where=known > 0)[arms])

    def _shares(self, chances: Matrix) -> dict[str, float]:
        sums = np.bincount(self._numbers.ravel(), weights=chances.ravel(), minlength=len(self._arms))
        return dict(zip(self._arms, (sums / len(self._log)).tolist(), strict=True))

    def _matrix(self, rows: Sequence[Sequence[float]]) -> Matrix:
        """(decisions, arms of the longest offer); 0 beyond the arms of a shorter one."""
        made = np.zeros((len(rows), self._width))
        for i, row in enumerate(rows):
            made[i, : len(row)] = row
        return made


def _price_by_lot(stairs: Staircase, offer: Offer, metric: Metric) -> float:
    """The mean price of the arms among which a lot decides; where it cannot, of the only one there is."""
    prices = [
        metric.price(arm.expected) for arm in offer.arms if arm.success_probability >= offer.quality_floor
    ]
    return sum(prices) / len(prices) if prices else stairs.prices[0]
