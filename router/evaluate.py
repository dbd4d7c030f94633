"""How good a difficulty model is: its figures with intervals, beside random, one arm always, prompt length and oracle.

Everything is measured on probabilities that were held out (`router.fit.held_out_models`). Where there are more than two
arms, what is ranked is whether the last, the strongest, is worth asking instead of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.calibration import Bin, calibration_noise, reliability
from router.outcome_table import OutcomeTable
from router.ranking import RoutingCurves, auc, calibration_errors, mean, routing_curves
from router.resampling import Estimate, Resamples

Floats = NDArray[np.float64]

FRONTIER_SHARES: Final = tuple(round(step * 0.05, 2) for step in range(21))
NUM_DRAWS: Final = 1000
"""Of the bootstrap."""


class NothingToJudgeError(ValueError):
    """No prompt was tried on both the weakest and the strongest arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReport:
    """How far one arm's probabilities of success hold."""

    arm: str
    num_outcomes: int
    success: Estimate
    auc: Estimate
    brier: Estimate
    calibration_error: Estimate
    calibration_noise: float
    """The calibration error that perfect probabilities of these heights would show by chance."""
    reliability: tuple[Bin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingReport:
    """How well one order of the requests spends the stronger arm."""

    name: str
    """`router`, `random`, `prompt length` or `oracle`."""
    apgr: Estimate
    cpt50: Estimate
    cpt80: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysReport:
    """What one arm does with all requests."""

    arm: str
    success: Estimate
    cost: Estimate | None
    """Mean money a request; None where costs are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """Mean success where this share of the requests goes to the stronger arm."""

    strong_share: float
    router: Estimate
    over_random: Estimate
    """What the router's order gains over a random one, on the same draws."""
    random: float
    prompt_length: float
    oracle: float
    cost: float | None
    """Mean money a request with the router's order; None where costs are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An evaluation."""

    num_prompts: int
    num_groups: int
    """Prompts that are no near-duplicates of each other."""
    arms: tuple[ArmReport, ...]
    weak: AlwaysReport
    strong: AlwaysReport
    rankings: tuple[RankingReport, ...]
    """The router first."""
    frontier: tuple[FrontierPoint, ...]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The requests that both arms were asked."""

    weak: Floats
    strong: Floats
    costs: Floats | None
    """(requests, 2)."""
    orders: dict[str, Floats]
    """A score of each ranking: the higher, the sooner to the stronger arm."""

    def curves(self, name: str, counts: Floats) -> RoutingCurves:
        return routing_curves(self.orders[name], self.weak, self.strong, counts)


def evaluate(
    table: OutcomeTable,
    probabilities: Floats,
    groups: NDArray[np.int64],
    generator: np.random.Generator,
    *,
    num_draws: int = NUM_DRAWS,
) -> Report:
    """The report on held-out `probabilities`, (prompts, arms); `groups` number the near-duplicates.

    Raises:
        NothingToJudgeError: no prompt was tried on both ends.
    """
    resamples = Resamples.draw(groups, generator, num_draws=num_draws)
    both = np.flatnonzero(~np.isnan(table.successes[:, 0]) & ~np.isnan(table.successes[:, -1]))
    if not len(both):
        raise NothingToJudgeError(
            f"no prompt has outcomes of both {table.arms[0]!r} and {table.arms[-1]!r}; collect some"
        )
    pairs, of_both = _pairs(table, probabilities, both), resamples.select(both)
    return Report(
        num_prompts=len(table),
        num_groups=len(np.unique(groups)),
        arms=tuple(
            _arm_report(table, probabilities, arm, resamples, generator) for arm in range(len(table.arms))
        ),
        weak=_always(table.arms[0], pairs.weak, pairs.costs, 0, of_both),
        strong=_always(table.arms[-1], pairs.strong, pairs.costs, 1, of_both),
        rankings=tuple(_ranking_report(name, pairs, of_both) for name in pairs.orders),
        frontier=_frontier(pairs, of_both),
    )


def _pairs(table: OutcomeTable, probabilities: Floats, both: NDArray[np.int64]) -> _Pairs:
    weak, strong = table.successes[both, 0], table.successes[both, -1]
    costs = table.costs[both][:, [0, -1]]
    return _Pairs(
        weak=weak,
        strong=strong,
        costs=costs if np.all(np.isfinite(costs)) else None,
        orders={
            "router": probabilities[both, -1] - probabilities[both, 0],
            "random": np.zeros(len(both)),
            "prompt length": np.array([float(len(table.prompts[place])) for place in both]),
            "oracle": strong - weak,
        },
    )


def _arm_report(
    table: OutcomeTable,
    probabilities: Floats,
    arm: int,
    resamples: Resamples,
    generator: np.random.Generator,
) -> ArmReport:
    tried = np.flatnonzero(~np.isnan(table.successes[:, arm]))
    p, y = probabilities[tried, arm], table.successes[tried, arm]
    of_tried = resamples.select(tried)
    return ArmReport(
        arm=table.arms[arm],
        num_outcomes=len(tried),
        success=of_tried.estimate(partial(mean, y)),
        auc=of_tried.estimate(partial(auc, p, y)),
        brier=of_tried.estimate(partial(mean, (p - y) ** 2)),
        calibration_error=of_tried.estimate(partial(calibration_errors, p, y)),
        calibration_noise=calibration_noise(p, generator),
        reliability=reliability(p, y),
    )


def _always(
    arm: str, successes: Floats, costs: Floats | None, column: int, resamples: Resamples
) -> AlwaysReport:
    return AlwaysReport(
        arm=arm,
        success=resamples.estimate(partial(mean, successes)),
        cost=None if costs is None else resamples.estimate(partial(mean, costs[:, column])),
    )


def _ranking_report(name: str, pairs: _Pairs, resamples: Resamples) -> RankingReport:
    def figures(counts: Floats) -> Floats:
        curves = pairs.curves(name, counts)
        return np.column_stack((curves.apgr(), curves.cpt(0.5), curves.cpt(0.8)))

    apgr, cpt50, cpt80 = resamples.estimates(figures)
    return RankingReport(name=name, apgr=apgr, cpt50=cpt50, cpt80=cpt80)


def _frontier(pairs: _Pairs, resamples: Resamples) -> tuple[FrontierPoint, ...]:
    shares = np.array(FRONTIER_SHARES)

    def success(name: str, counts: Floats) -> Floats:
        successes: Floats = mean(pairs.weak, counts)[:, None] + pairs.curves(name, counts).at(shares)
        return successes

    def over_random(counts: Floats) -> Floats:
        curves = pairs.curves("router", counts)
        gains: Floats = curves.at(shares) - curves.gap[:, None] * shares
        return gains

    routed, gained = resamples.estimates(partial(success, "router")), resamples.estimates(over_random)
    once = np.ones((1, len(pairs.weak)))
    others = {name: success(name, once)[0] for name in ("random", "prompt length", "oracle")}
    costs = _costs(pairs, shares)
    return tuple(
        FrontierPoint(
            strong_share=share,
            router=routed[at],
            over_random=gained[at],
            random=float(others["random"][at]),
            prompt_length=float(others["prompt length"][at]),
            oracle=float(others["oracle"][at]),
            cost=None if costs is None else float(costs[at]),
        )
        for at, share in enumerate(FRONTIER_SHARES)
    )


def _costs(pairs: _Pairs, shares: Floats) -> Floats | None:
    """Mean money a request at each share with the router's order."""
    if pairs.costs is None:
        return None
    weak, strong = pairs.costs.T
    curves = routing_curves(pairs.orders["router"], weak, strong, np.ones((1, len(weak))))
    costs: Floats = weak.mean() + curves.at(shares)[0]
    return costs
