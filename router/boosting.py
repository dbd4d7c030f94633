"""Boosted oblivious trees: what a linear score misses, in arrays that are read in microseconds.

Every node of one level of an oblivious tree asks the same question (Kohavi 1994; Prokhorenkova et al. 2018,
arXiv 1706.09516), so a tree of depth d is d comparisons and a table of 2^d values, and all trees are read at once.
Fitted by Newton steps on the logistic loss (Friedman 2001, doi:10.1214/aos/1013203451) over binned features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NUM_BINS: Final = 32
DEPTH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostConfig:
    """How to fit."""

    num_trees: int = 200
    learning_rate: float = 0.06
    penalty: float = 20.0
    """Added to a leaf's sum of second derivatives, which is at most a quarter of its number of outcomes."""
    feature_share: float = 0.3
    """Of the features that a level may ask about, drawn anew for each."""
    row_share: float = 0.7
    """Of the outcomes that a tree sees."""


@dataclass(frozen=True, slots=True)
class Trees:
    """All trees of an ensemble."""

    features: NDArray[np.int64]
    """(trees, depth): which feature each level asks about."""
    thresholds: NDArray[np.float32]
    """(trees, depth): the answer is whether it is greater."""
    leaves: NDArray[np.float32]
    """(trees, 2^depth): the value at the answers, read as a binary number, the first level its lowest digit."""

    def __call__(self, x: NDArray[np.float32]) -> float:
        """The sum of all trees for the features `x` of one request."""
        answers = x[self.features] > self.thresholds
        places = answers @ (1 << np.arange(self.features.shape[1]))
        return float(self.leaves[np.arange(len(places)), places].sum())

    def staged(self, x: NDArray[np.float32]) -> Floats:
        """The sum of the first 0, 1, 2, … trees for each row of `x`; (trees + 1, rows)."""
        answers = x[:, self.features] > self.thresholds
        places = answers @ (1 << np.arange(self.features.shape[1]))
        values = self.leaves[np.arange(len(self.leaves)), places]
        return np.vstack((np.zeros(len(x)), np.cumsum(values, axis=1, dtype=np.float64).T))


def fit_trees(
    x: NDArray[np.float32],
    successes: Floats,
    offsets: Floats,
    config: BoostConfig,
    generator: np.random.Generator,
    *,
    counts: Floats | None = None,
) -> Trees:
    """Trees whose sum, added to `offsets`, is the log odds of success.

    Args:
        x: (requests, features).
        successes: in [0, 1].
        offsets: log odds that are there already.
        config: how.
        generator: draws the features and outcomes that each tree sees.
        counts: how often each request counts, which may be less than once; once where absent.
    """
    edges = [np.unique(np.quantile(column, np.arange(1, NUM_BINS) / NUM_BINS)) for column in x.T]
    binned = np.stack(
        [np.searchsorted(each, column, side="left") for each, column in zip(edges, x.T, strict=True)]
    )
    scores, counts = offsets.copy(), np.ones(len(x)) if counts is None else counts
    features = np.zeros((config.num_trees, DEPTH), dtype=np.int64)
    thresholds = np.zeros((config.num_trees, DEPTH), dtype=np.float32)
    leaves = np.zeros((config.num_trees, 2**DEPTH), dtype=np.float32)
    for tree in range(config.num_trees):
        p = 1 / (1 + np.exp(-scores))
        gradients, curvatures = counts * (successes - p), counts * p * (1 - p)
        seen = generator.random(len(scores)) < config.row_share
        places = np.zeros(len(scores), dtype=np.int64)
        for level in range(DEPTH):
            asked = generator.random(len(edges)) < config.feature_share
            asked[[generator.integers(len(edges))]] = True
            feature, cut = _best_question(
                binned[:, seen],
                np.flatnonzero(asked),
                places[seen],
                gradients[seen],
                curvatures[seen],
                config.penalty,
            )
            features[tree, level] = feature
            thresholds[tree, level] = edges[feature][cut] if cut < len(edges[feature]) else np.inf
            places += (binned[feature] > cut) << level
        sums = np.bincount(places[seen], weights=gradients[seen], minlength=2**DEPTH)
        weights = np.bincount(places[seen], weights=curvatures[seen], minlength=2**DEPTH)
        leaves[tree] = config.learning_rate * sums / (weights + config.penalty)
        scores += leaves[tree][places]
    return Trees(features, thresholds, leaves)


def _best_question(
    binned: NDArray[np.int64],
    asked: NDArray[np.int64],
    places: NDArray[np.int64],
    gradients: Floats,
    curvatures: Floats,
    penalty: float,
) -> tuple[int, int]:
    """The feature and the bin such that asking whether it is beyond that bin, in every leaf, gains most."""
    num_leaves = int(places.max()) + 1
    cells = (np.arange(len(asked))[:, None] * num_leaves + places) * NUM_BINS + binned[asked]
    shape = (len(asked), num_leaves, NUM_BINS)

    def gathered(values: Floats) -> Floats:
        tiled = np.broadcast_to(values, cells.shape).ravel()
        sums = np.bincount(cells.ravel(), weights=tiled, minlength=int(np.prod(shape)))
        return sums.reshape(shape).astype(np.float64)

    below_sums, below_weights = (
        np.cumsum(gathered(gradients), axis=2),
        np.cumsum(gathered(curvatures), axis=2),
    )
    above_sums, above_weights = below_sums[:, :, -1:] - below_sums, below_weights[:, :, -1:] - below_weights
    gains = below_sums**2 / (below_weights + penalty) + above_sums**2 / (above_weights + penalty)
    best = np.unravel_index(int(np.argmax(gains.sum(axis=1))), (len(asked), NUM_BINS))
    return int(asked[best[0]]), int(best[1])
