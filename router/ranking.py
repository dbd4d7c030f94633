"""How well a score tells which requests are worth the stronger arm: the routing curve and what is read off it.

Requests go to the stronger arm in falling order of the score. At each share s of them the *performance gap recovered*
is (quality(s) − quality of the weaker arm) / (quality of the stronger − quality of the weaker); APGR is its mean over
all shares, 0.5 for a random order, and CPT(x) the least share that recovers x (Ong et al. 2024, arXiv 2406.18665).
Equal scores are in random order: their stretch of the curve is a straight line.

Everything is computed for many draws of a bootstrap at once (`router.resampling`): counts are (draws, requests).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from router.calibration import NUM_BINS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoutingCurves:
    """What is gained over the weaker arm, as a function of the share that goes to the stronger one; a line a draw."""

    shares: Floats
    """(draws, points), from 0 to 1."""
    gains: Floats
    """(draws, points), per request of the whole, from 0 to the whole gap."""

    @property
    def gap(self) -> Floats:
        """Quality of the stronger arm less that of the weaker."""
        return self.gains[:, -1]

    def apgr(self) -> Floats:
        """The mean performance gap recovered; not a number where there is no gap."""
        areas: Floats = np.atleast_1d(np.trapezoid(self.gains, self.shares, axis=1))
        return _ratio(areas, self.gap)

    def cpt(self, recovered: float) -> Floats:
        """The least share that recovers as much of the gap; not a number where the stronger arm is no better."""
        goal = recovered * self.gap
        place = np.maximum(1, np.argmax(self.gains >= goal[:, None], axis=1))
        draws = np.arange(len(place))
        left, right = self.shares[draws, place - 1], self.shares[draws, place]
        below, above = self.gains[draws, place - 1], self.gains[draws, place]
        return np.where(self.gap > 0, left + (right - left) * _ratio(goal - below, above - below), np.nan)

    def at(self, shares: Floats) -> Floats:
        """The gain at each of these shares; (draws, shares)."""
        return np.stack([np.interp(shares, *curve) for curve in zip(self.shares, self.gains, strict=True)])


def routing_curves(scores: Floats, weak: Floats, strong: Floats, counts: Floats) -> RoutingCurves:
    """The curves of requests with these scores and qualities, of either arm."""
    order, starts = _ranks(-scores)
    ordered = counts[:, order]
    total = ordered.sum(axis=1, keepdims=True)
    sizes = np.add.reduceat(ordered, starts, axis=1)
    gains = np.add.reduceat(ordered * (strong - weak)[order], starts, axis=1)
    zero = np.zeros((len(counts), 1))
    return RoutingCurves(
        np.hstack((zero, np.cumsum(sizes, axis=1) / total)),
        np.hstack((zero, np.cumsum(gains, axis=1) / total)),
    )


def auc(scores: Floats, successes: Floats, counts: Floats) -> Floats:
    """Chance that a success has a higher score than a failure, ties counting half; not a number for one class only.

    By ranks (Mann & Whitney 1947).
    """
    order, starts = _ranks(scores)
    ordered = counts[:, order]
    won = np.add.reduceat(ordered * successes[order], starts, axis=1)
    lost = np.add.reduceat(ordered, starts, axis=1) - won
    pairs = (won * (np.cumsum(lost, axis=1) - lost / 2)).sum(axis=1)
    return _ratio(pairs, won.sum(axis=1) * lost.sum(axis=1))


def mean(values: Floats, counts: Floats) -> Floats:
    """The mean of what each request has."""
    means: Floats = counts @ values / counts.sum(axis=1)
    return means


def calibration_errors(
    probabilities: Floats, successes: Floats, counts: Floats, *, num_bins: int = NUM_BINS
) -> Floats:
    """`router.calibration.expected_calibration_error` of each draw.

    A bin's share times its error is the sum of its residuals, taken absolutely.
    """
    places = np.minimum((probabilities * num_bins).astype(int), num_bins - 1)
    residuals = np.zeros((len(places), num_bins))
    residuals[np.arange(len(places)), places] = probabilities - successes
    errors: Floats = np.abs(counts @ residuals).sum(axis=1) / counts.sum(axis=1)
    return errors


def _ranks(scores: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of rising scores, and where in it each run of equal ones begins."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def _ratio(above: Floats, below: Floats) -> Floats:
    ratios: Floats = np.divide(above, below, out=np.full(len(below), np.nan), where=below != 0)
    return ratios
