"""How well a score tells which requests are worth the stronger arm: the routing curve and what is read off it.

Requests go to the stronger arm in falling order of the score. At each share s of them the *performance gap recovered*
is (quality(s) − quality of the weaker arm) / (quality of the stronger − quality of the weaker); APGR is its mean over
all shares, 0.5 for a random order, and CPT(x) the least share that recovers x (Ong et al. 2024, arXiv 2406.18665).
Equal scores are in random order: their stretch of the curve is a straight line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoutingCurve:
    """Sum of quality gained over the weaker arm, as a function of the share that goes to the stronger one."""

    shares: Floats
    """From 0 to 1."""
    gains: Floats
    """Per request of the whole, from 0 to the whole gap."""

    @property
    def gap(self) -> float:
        """Quality of the stronger arm less that of the weaker."""
        return float(self.gains[-1])

    def apgr(self) -> float:
        """The mean performance gap recovered; not a number where there is no gap."""
        return float(np.trapezoid(self.gains, self.shares)) / self.gap if self.gap else float("nan")

    def cpt(self, recovered: float) -> float:
        """The least share that recovers as much of the gap; not a number where none does."""
        goal = recovered * self.gap
        reached = np.flatnonzero(self.gains >= goal) if self.gap > 0 else np.empty(0, dtype=int)
        if not len(reached):
            return float("nan")
        place = int(reached[0])
        if place == 0:
            return 0.0
        (left, right), (below, above) = self.shares[place - 1 : place + 1], self.gains[place - 1 : place + 1]
        return float(left + (right - left) * (goal - below) / (above - below))


def routing_curve(scores: Floats, weak: Floats, strong: Floats, counts: Floats | None = None) -> RoutingCurve:
    """The curve of requests with these scores and qualities, of either arm.

    Args:
        counts: how often each request counts, for a bootstrap; once each where absent.
    """
    counts = np.ones(len(scores)) if counts is None else counts
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    is_end = np.append(ordered[1:] != ordered[:-1], True)
    total = counts.sum()
    shares = np.cumsum(counts[order])[is_end] / total
    gains = np.cumsum((counts * (strong - weak))[order])[is_end] / total
    return RoutingCurve(np.append(0.0, shares), np.append(0.0, gains))


def auc(scores: Floats, successes: Floats) -> float:
    """Chance that a success has a higher score than a failure, ties counting half; not a number for one class only.

    By ranks (Mann & Whitney 1947).
    """
    num_successes = successes.sum()
    num_failures = len(successes) - num_successes
    if not num_successes or not num_failures:
        return float("nan")
    _, places, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(sizes) - (sizes - 1) / 2
    rank_sum = (mean_ranks[places] * successes).sum()
    return float((rank_sum - num_successes * (num_successes + 1) / 2) / (num_successes * num_failures))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and the middle 95 % of what it is on resampled data."""

    value: float
    low: float
    high: float


def bootstrap(
    figure: Callable[[Floats], float],
    groups: NDArray[np.int64],
    generator: np.random.Generator,
    *,
    num_draws: int = 400,
) -> Estimate:
    """`figure` of how often each request counts, with the percentile interval over resampled groups.

    Whole groups are drawn with replacement, so that near-duplicates do not pass for independent evidence.
    """
    _, places = np.unique(groups, return_inverse=True)
    num_groups = int(places.max()) + 1
    draws = [
        figure(generator.multinomial(num_groups, np.full(num_groups, 1 / num_groups))[places].astype(float))
        for _ in range(num_draws)
    ]
    low, high = np.nanpercentile(draws, (2.5, 97.5))
    return Estimate(figure(np.ones(len(groups))), float(low), float(high))
