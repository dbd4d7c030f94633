"""What another λ, or another target, would have cost and lost: doubly robust estimates from the log, or an honest no.

For a policy π and a log made with propensities μ, the value of a request is estimated as

    Σ_a π(a)·q(a)  +  π(c)/μ(c) · (y − q(c))        (Dudík, Langford, Li: arXiv 1103.4601)

with the arm c that was chosen, what came of it, y, and what was expected of each arm, q: the forecast of success, or
the expected spend. It is unbiased wherever π goes only where μ goes too, however wrong q is; a good q makes it precise.
Outcomes are known of a part of the requests only. That part is taken to be a random one among the requests of an arm:
where clients grade bad answers rather than good ones, the estimates of success are as biased as their grades.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from operator import mul
from typing import Final

import numpy as np
import numpy.typing as npt

from router.demand import demand
from router.offer import ArmOffer, Metric, Offer, Spend
from router.propensity import PolicyTerms, propensities
from router.staircase import staircase

MIN_OUTCOMES: Final = 50
MIN_SUPPORTING: Final = 100.0
"""Outcomes that a move is judged by, effectively. With fewer, intervals of 95 % held 85 to 93 in simulation."""
MAX_UNSUPPORTED_SHARE: Final = 0.01
"""Share of requests that may go where the log never goes."""
MIN_MOVED_SHARE: Final = 0.002
"""A policy that moves fewer requests is the logged one, for all that matters."""
Z_95: Final = 1.959964
MIN_FREEDOM: Final = 3.0

Vector = npt.NDArray[np.float64]


class Lack(StrEnum):
    """Why there is no estimate."""

    TOO_FEW_OUTCOMES = "too_few_outcomes"
    """Of too few requests is it known what came of them."""
    NO_SUPPORT = "no_support"
    """Requests would go to arms that the log never tries for them. An exploration share would try them."""
    LITTLE_SUPPORT = "little_support"
    """The log tries those arms too rarely. More time, or a greater exploration share, would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """One request of the log."""

    offer: Offer
    arm: str
    """The name of the arm that was chosen."""
    chosen: int
    """Its position in the offer."""
    propensities: tuple[float, ...]
    """Of each arm of the offer, when it was decided."""
    realised: Spend | None = None
    """What all its attempts took; None where it did not come to that."""
    success: float | None = None
    """In [0, 1]; None where nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over requests with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity under the other policy and under the logged one; `lack` says why it is not known."""

    num_outcomes: int
    num_supporting: float
    """Outcomes, effectively, of requests that went where they would be moved to, or of those that would be moved if
    these are fewer."""
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
    success: Comparison
    cost: Comparison
    taken: Comparison
    """In the unit of the metric of a request."""


def what_if(log: Sequence[LoggedDecision], terms: PolicyTerms) -> WhatIf:
    """What `log` would have come to under other terms, the same for all of it."""
    return compare(log, [propensities(decision.offer, terms) for decision in log], terms.metric)


def what_if_target(
    log: Sequence[LoggedDecision],
    metric: Metric,
    target: float,
    *,
    spread: float,
    block: int = 500,
    exploration_share: float = 0.0,
) -> WhatIf:
    """What `log` would have come to under a controller that holds `target`, per request.

    λ is solved anew for every `block` of decisions, by their own offers: the controller is taken to have been right.
    """
    chances: list[tuple[float, ...]] = []
    for begin in range(0, len(log), block):
        offers = [decision.offer for decision in log[begin : begin + block]]
        curve = demand([staircase(offer, metric) for offer in offers], spread=spread)
        terms = PolicyTerms(
            metric=metric,
            price_of_compute=curve.price_of_compute_for(target) if curve else 0.0,
            spread=spread,
            exploration_share=exploration_share,
        )
        chances += [propensities(offer, terms) for offer in offers]
    return compare(log, chances, metric)


def compare(log: Sequence[LoggedDecision], chances: Sequence[tuple[float, ...]], metric: Metric) -> WhatIf:
    """What `log` would have come to under any other policy, given by its chances for each decision's offer."""
    if not log:
        raise ValueError("an empty log says nothing")
    logged = [decision.propensities for decision in log]
    unsupported_share = float(
        np.mean([_unsupported(new, old) for new, old in zip(chances, logged, strict=True)])
    )
    moved_share = float(np.mean([_moved(new, old) for new, old in zip(chances, logged, strict=True)]))
    weights = _Weights(
        new=np.array([new[decision.chosen] for new, decision in zip(chances, log, strict=True)]),
        old=np.array([decision.propensities[decision.chosen] for decision in log]),
        moved_share=moved_share,
        unsupported_share=unsupported_share,
    )

    def compared(
        expected: Callable[[ArmOffer], float], came: Callable[[LoggedDecision], float | None]
    ) -> Comparison:
        return _comparison(log, chances, weights, expected, came)

    return WhatIf(
        num_decisions=len(log),
        moved_share=moved_share,
        unsupported_share=unsupported_share,
        success=compared(lambda arm: arm.success_probability, lambda decision: decision.success),
        cost=compared(
            lambda arm: arm.expected.cost, lambda decision: _taken(Metric.COST_PER_REQUEST, decision)
        ),
        taken=compared(lambda arm: metric.price(arm.expected), lambda decision: _taken(metric, decision)),
    )


def _taken(metric: Metric, decision: LoggedDecision) -> float | None:
    return None if decision.realised is None else metric.price(decision.realised)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """The chance of the arm that was chosen under the new and the old policy."""

    new: Vector  # (decisions,)
    old: Vector  # (decisions,), above 0
    moved_share: float
    unsupported_share: float

    def num_supporting(self, is_known: npt.NDArray[np.bool_]) -> float:
        """Known outcomes that a move is judged by, effectively: at the arms left, or at those gone to if fewer."""
        moves = (self.new - self.old)[is_known] / self.old[is_known]
        return min(_effective_number(np.maximum(0.0, moves)), _effective_number(np.maximum(0.0, -moves)))

    def lack(self, num_outcomes: int, num_supporting: float) -> Lack | None:
        if num_outcomes < MIN_OUTCOMES:
            return Lack.TOO_FEW_OUTCOMES
        if self.unsupported_share > MAX_UNSUPPORTED_SHARE:
            return Lack.NO_SUPPORT
        if self.moved_share > MIN_MOVED_SHARE and num_supporting < MIN_SUPPORTING:
            return Lack.LITTLE_SUPPORT
        return None


def _comparison(
    log: Sequence[LoggedDecision],
    chances: Sequence[tuple[float, ...]],
    weights: _Weights,
    expected: Callable[[ArmOffer], float],
    came: Callable[[LoggedDecision], float | None],
) -> Comparison:
    outcomes = [came(decision) for decision in log]
    is_known = np.array([outcome is not None for outcome in outcomes])
    num_outcomes, num_supporting = int(is_known.sum()), weights.num_supporting(is_known)
    lack = weights.lack(num_outcomes, num_supporting)
    if lack is not None:
        return Comparison(num_outcomes=num_outcomes, num_supporting=num_supporting, lack=lack)
    forecasts = [[expected(arm) for arm in decision.offer.arms] for decision in log]
    surprises = np.array(
        [
            0.0 if outcome is None else outcome - row[decision.chosen]
            for outcome, row, decision in zip(outcomes, forecasts, log, strict=True)
        ]
    ) * _inverse_shares([decision.arm for decision in log], is_known)
    new = _means(chances, forecasts) + weights.new / weights.old * surprises
    old = _means([decision.propensities for decision in log], forecasts) + surprises
    return Comparison(
        num_outcomes=num_outcomes,
        num_supporting=num_supporting,
        estimate=_estimate(new),
        logged=_estimate(old),
        change=_estimate(new - old),
    )


def _effective_number(weights: Vector) -> float:
    """Kish's: so many equal weights would be as good."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _inverse_shares(arms: Sequence[str], is_known: npt.NDArray[np.bool_]) -> Vector:
    """For each decision: how many of its arm's stand behind each one whose outcome is known."""
    every = Counter(arms)
    known = Counter(arm for arm, is_one in zip(arms, is_known, strict=True) if is_one)
    return np.array([every[arm] / known[arm] if known[arm] else 0.0 for arm in arms])


def _means(chances: Sequence[tuple[float, ...]], values: Sequence[Sequence[float]]) -> Vector:
    return np.array([sum(map(mul, row, of)) for row, of in zip(chances, values, strict=True)])


def _estimate(values: Vector) -> Estimate:
    """The mean with Student's interval.

    Few decisions carry great weights, which makes the standard error itself uncertain: its degrees of freedom are
    2·n / (kurtosis − 1), by which the variance of a sample's variance is that of a normal one.
    """
    mean, deviation = float(values.mean()), values - values.mean()
    variance = float(np.square(deviation).mean())
    if not variance:
        return Estimate(value=mean, low=mean, high=mean)
    kurtosis = float(np.power(deviation, 4).mean()) / variance**2
    freedom = max(MIN_FREEDOM, 2 * len(values) / max(kurtosis - 1, 1e-9))
    half = _student(freedom) * sqrt(variance / (len(values) - 1))
    return Estimate(value=mean, low=mean - half, high=mean + half)


def _student(freedom: float) -> float:
    """The 97.5 % point of Student's t, by its expansion in 1/freedom (Abramowitz and Stegun 26.7.5)."""
    z = Z_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _unsupported(new: Sequence[float], old: Sequence[float]) -> float:
    return sum(chance for chance, before in zip(new, old, strict=True) if not before)


def _moved(new: Sequence[float], old: Sequence[float]) -> float:
    """Total variation: the least share of requests that changes its arm."""
    return sum(max(0.0, chance - before) for chance, before in zip(new, old, strict=True))
