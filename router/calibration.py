"""Calibration: from a model's scores to probabilities that hold, and how far they do.

The map is isotonic regression by pooling adjacent violators (Ayer et al. 1955, doi:10.1214/aoms/1177728423), each pool
drawn towards a logistic curve through all of them (Platt 1999), and read with straight lines between the pools. Where
outcomes are many the pools have their say; where they are few the curve does, and steps that are chance flatten out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NUM_BINS: Final = 10
"""Of equal width, for the expected calibration error (Guo et al. 2017, arXiv 1706.04599)."""
PRIOR: Final = 100.0
"""Outcomes that each pool is given beforehand, at the height of the logistic curve. Of 0, 10, 30, 100 and 300 the one
that kept most of the order on small tables without costing calibration on large ones."""


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A map from scores to probabilities that never falls, flat beyond its first and last knot."""

    scores: Floats
    """Knots, rising."""
    probabilities: Floats
    """At the knots, never falling, within (0, 1)."""

    def __call__(self, scores: Floats) -> Floats:
        """The probabilities of these scores."""
        return np.interp(scores, self.scores, self.probabilities)


@dataclass(frozen=True, slots=True)
class Line:
    """Log odds as a line in the score, which never falls."""

    slope: float
    intercept: float

    def __call__(self, scores: Floats) -> Floats:
        """The log odds at these scores."""
        return self.slope * scores + self.intercept


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Predictions of about the same height, and what came of them."""

    num: int
    mean_probability: float
    success_share: float


def fit_isotonic(scores: Floats, successes: Floats) -> Isotonic:
    """The map that fits held-out `successes`, each in [0, 1], best of all that never fall.

    Each pool stands at its mean score. Equal scores are one point.
    """
    curve = fit_line(scores, successes)
    order = np.argsort(scores, kind="stable")
    points, starts = np.unique(scores[order], return_index=True)
    weights = np.diff(starts, append=len(order)).astype(float)
    sums = np.add.reduceat(successes[order], starts)
    pools = _pool(points * weights, sums, weights)
    means = pools.score_sums / pools.weights
    probabilities = (pools.sums + PRIOR * sigmoid(curve(means))) / (pools.weights + PRIOR)
    return Isotonic(means, np.maximum.accumulate(probabilities))


def fit_line(scores: Floats, successes: Floats, *, num_steps: int = 30) -> Line:
    """The likeliest line by Newton's method, with Platt's prior of one success and one failure more; flat where the
    likeliest falls."""
    num_successes = float(successes.sum())
    num_failures = len(successes) - num_successes
    lowest, highest = 1 / (num_failures + 2), (num_successes + 1) / (num_successes + 2)
    targets = lowest + successes * (highest - lowest)
    centre, spread = float(scores.mean()), float(scores.std()) or 1.0
    x = np.column_stack(((scores - centre) / spread, np.ones(len(scores))))
    point = np.array([0.0, _log_odds((num_successes + 1) / (len(successes) + 2))])
    flat = point.copy()
    for _ in range(num_steps):
        p = sigmoid(x @ point)
        curvature = x.T @ (x * (p * (1 - p))[:, None]) + 1e-6 * np.eye(2)
        point = point + np.clip(np.linalg.solve(curvature, x.T @ (targets - p)), -2, 2)
    if point[0] < 0:
        point = flat
    slope = float(point[0]) / spread
    return Line(slope, float(point[1]) - slope * centre)


def sigmoid(scores: Floats) -> Floats:
    """Probabilities of log odds."""
    return 1 / (1 + np.exp(-np.clip(scores, -500, 500)))


def _log_odds(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


@dataclass(frozen=True, slots=True)
class _Pools:
    score_sums: Floats
    sums: Floats
    weights: Floats


def _pool(score_sums: Floats, sums: Floats, weights: Floats) -> _Pools:
    """Merge neighbours until means rise."""
    stack: list[tuple[float, float, float]] = []
    for score_sum, total, weight in zip(score_sums.tolist(), sums.tolist(), weights.tolist(), strict=True):
        while stack and stack[-1][1] * weight >= total * stack[-1][2]:
            below = stack.pop()
            score_sum, total, weight = below[0] + score_sum, below[1] + total, below[2] + weight
        stack.append((score_sum, total, weight))
    columns = np.array(stack, dtype=float).reshape(-1, 3)
    return _Pools(columns[:, 0], columns[:, 1], columns[:, 2])


def reliability(probabilities: Floats, successes: Floats, *, num_bins: int = NUM_BINS) -> tuple[Bin, ...]:
    """The bins of equal width that hold any prediction, lowest first."""
    places = np.minimum((probabilities * num_bins).astype(int), num_bins - 1)
    return tuple(
        Bin(
            num=int(in_bin.sum()),
            mean_probability=float(probabilities[in_bin].mean()),
            success_share=float(successes[in_bin].mean()),
        )
        for place in np.unique(places)
        for in_bin in (places == place,)
    )


def expected_calibration_error(
    probabilities: Floats, successes: Floats, *, num_bins: int = NUM_BINS
) -> float:
    """Σ share of bin · |mean probability − share of successes|: 0 is best, and no finite sample gets there."""
    bins = reliability(probabilities, successes, num_bins=num_bins)
    errors = sum(each.num * abs(each.mean_probability - each.success_share) for each in bins)
    return errors / len(probabilities)


def calibration_noise(
    probabilities: Floats, generator: np.random.Generator, *, num_draws: int = 200, num_bins: int = NUM_BINS
) -> float:
    """The mean expected calibration error that perfectly calibrated predictions of these heights would show.

    What is measured includes this much chance; the fewer outcomes, the more of it.
    """
    draws = [
        expected_calibration_error(
            probabilities,
            (generator.random(len(probabilities)) < probabilities).astype(float),
            num_bins=num_bins,
        )
        for _ in range(num_draws)
    ]
    return float(np.mean(draws))


def brier_score(probabilities: Floats, successes: Floats) -> float:
    """Mean squared distance from what happened (Brier 1950): 0 is best; a coin's 0.5 gives 0.25."""
    return float(np.mean((probabilities - successes) ** 2))
