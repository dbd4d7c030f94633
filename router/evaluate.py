"""How good a difficulty model is: its figures with intervals, beside random, one arm always, prompt length and oracle.

Everything is measured on probabilities that were held out (`router.fit.predict_held_out`). Where there are more than
two arms, what is ranked is whether the last, the strongest, is worth asking instead of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from router.calibration import (
    Bin,
    brier_score,
    calibration_noise,
    expected_calibration_error,
    reliability,
)
from router.outcome_table import OutcomeTable
from router.ranking import Estimate, RoutingCurve, auc, bootstrap, routing_curve

Floats = NDArray[np.float64]

FRONTIER_SHARES = tuple(round(step * 0.05, 2) for step in range(21))


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
class FrontierPoint:
    """Mean success where this share of the requests goes to the stronger arm."""

    strong_share: float
    router: Estimate
    random: float
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
    weak: str
    strong: str
    rankings: tuple[RankingReport, ...]
    """The router first."""
    frontier: tuple[FrontierPoint, ...]


def evaluate(
    table: OutcomeTable,
    probabilities: Floats,
    groups: NDArray[np.int64],
    generator: np.random.Generator,
    *,
    num_draws: int = 400,
) -> Report:
    """The report on held-out `probabilities`, (prompts, arms); `groups` number the near-duplicates."""

    def resampled(figure: Callable[[Floats], float], places: NDArray[np.int64]) -> Estimate:
        return bootstrap(figure, groups[places], generator, num_draws=num_draws)

    arms = tuple(
        _arm_report(table, probabilities, arm, resampled, generator) for arm in range(len(table.arms))
    )
    both = np.flatnonzero(~np.isnan(table.successes[:, 0]) & ~np.isnan(table.successes[:, -1]))
    weak, strong = table.successes[both, 0], table.successes[both, -1]
    orders = {
        "router": probabilities[both, -1] - probabilities[both, 0],
        "random": np.zeros(len(both)),
        "prompt length": np.array([float(len(table.prompts[place])) for place in both]),
        "oracle": strong - weak,
    }
    rankings = tuple(
        _ranking_report(name, scores, weak, strong, lambda figure: resampled(figure, both))
        for name, scores in orders.items()
    )
    return Report(
        num_prompts=len(table),
        num_groups=len(np.unique(groups)),
        arms=arms,
        weak=table.arms[0],
        strong=table.arms[-1],
        rankings=rankings,
        frontier=_frontier(orders, weak, strong, table.costs[both][:, [0, -1]], lambda f: resampled(f, both)),
    )


def _arm_report(
    table: OutcomeTable,
    probabilities: Floats,
    arm: int,
    resampled: Callable[[Callable[[Floats], float], NDArray[np.int64]], Estimate],
    generator: np.random.Generator,
) -> ArmReport:
    tried = np.flatnonzero(~np.isnan(table.successes[:, arm]))
    p, y = probabilities[tried, arm], table.successes[tried, arm]

    def of(figure: Callable[[Floats, Floats], float]) -> Estimate:
        def counted(counts: Floats) -> float:
            drawn = np.repeat(np.arange(len(y)), counts.astype(int))
            return figure(p[drawn], y[drawn])

        return resampled(counted, tried)

    return ArmReport(
        arm=table.arms[arm],
        num_outcomes=len(tried),
        success=of(lambda _, successes: float(successes.mean())),
        auc=of(auc),
        brier=of(brier_score),
        calibration_error=of(expected_calibration_error),
        calibration_noise=calibration_noise(p, generator),
        reliability=reliability(p, y),
    )


def _ranking_report(
    name: str,
    scores: Floats,
    weak: Floats,
    strong: Floats,
    resampled: Callable[[Callable[[Floats], float]], Estimate],
) -> RankingReport:
    def of(figure: Callable[[RoutingCurve], float]) -> Estimate:
        return resampled(lambda counts: figure(routing_curve(scores, weak, strong, counts)))

    return RankingReport(
        name=name,
        apgr=of(lambda curve: curve.apgr()),
        cpt50=of(lambda curve: curve.cpt(0.5)),
        cpt80=of(lambda curve: curve.cpt(0.8)),
    )


def _frontier(
    orders: dict[str, Floats],
    weak: Floats,
    strong: Floats,
    costs: Floats,
    resampled: Callable[[Callable[[Floats], float]], Estimate],
) -> tuple[FrontierPoint, ...]:
    def success_at(share: float, scores: Floats, counts: Floats) -> float:
        curve = routing_curve(scores, weak, strong, counts)
        base = float(counts @ weak / counts.sum())
        return base + float(np.interp(share, curve.shares, curve.gains))

    all_once = np.ones(len(weak))
    are_costs_known = bool(np.all(np.isfinite(costs)))
    cost_curve = routing_curve(orders["router"], costs[:, 0], costs[:, 1]) if are_costs_known else None
    return tuple(
        FrontierPoint(
            strong_share=share,
            router=resampled(partial(success_at, share, orders["router"])),
            random=success_at(share, orders["random"], all_once),
            oracle=success_at(share, orders["oracle"], all_once),
            cost=None
            if cost_curve is None
            else float(costs[:, 0].mean() + np.interp(share, cost_curve.shares, cost_curve.gains)),
        )
        for share in FRONTIER_SHARES
    )
