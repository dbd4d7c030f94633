"""Quantiles, and how sure one may be of a difference between two of them. Pure: the seed is a parameter.

A *quantile* here is Hyndman and Fan's type 7 (linear between order statistics; numpy's default): the
q-quantile of n sorted values stands at position `(n − 1)·q`, counted from zero.

Requests that ran within the same second share that second's noise, so they are not independent observations.
Intervals come from a cluster bootstrap: whole pairs of blocks (one on each lane, run one after the other) are
drawn with replacement, and the difference is computed anew each time (Efron and Tibshirani 1993, chapter 8;
percentile intervals).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

MIN_PAIRS = 5
"""With fewer clusters a bootstrap interval is too narrow to be worth printing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value and its confidence interval; no interval where pairs are too few."""

    value: float
    low: float | None = None
    high: float | None = None


def quantile(values: Sequence[float] | Values, q: float) -> float:
    """The q-quantile of a non-empty sample, q in [0, 1]."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), q))


def added_quantiles(
    *,
    direct: Sequence[Values],
    gateway: Sequence[Values],
    qs: Sequence[float],
    seed: int,
    num_resamples: int = 1000,
    confidence: float = 0.95,
) -> tuple[Estimate, ...]:
    """For each q: the gateway's q-quantile minus the direct lane's, with a cluster-bootstrap interval.

    `direct[i]` and `gateway[i]` are what the two blocks of pair i observed. It is the difference of the
    quantiles, not the quantile of differences.

    Raises:
        ValueError: the lanes have different numbers of pairs, or one of them observed nothing.
    """
    if len(direct) != len(gateway):
        raise ValueError(
            f"{len(direct)} blocks on the direct lane and {len(gateway)} on the gateway's do not pair up"
        )
    lanes = [_SortedLane(direct), _SortedLane(gateway)]
    if any(lane.values.size == 0 for lane in lanes):
        raise ValueError("a lane observed nothing")
    whole = np.ones(len(direct), dtype=np.intp)
    values = lanes[1].quantiles(whole, qs) - lanes[0].quantiles(whole, qs)
    if len(direct) < MIN_PAIRS:
        return tuple(Estimate(value=float(value)) for value in values)
    rng = np.random.default_rng(seed)
    resampled = []
    for _ in range(num_resamples):
        counts = np.bincount(rng.integers(len(direct), size=len(direct)), minlength=len(direct))
        if all(lane.num_observed(counts) for lane in lanes):
            resampled.append(lanes[1].quantiles(counts, qs) - lanes[0].quantiles(counts, qs))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.asarray(resampled), [tail, 1 - tail], axis=0)
    return tuple(
        Estimate(value=float(v), low=float(lo), high=float(hi))
        for v, lo, hi in zip(values, low, high, strict=True)
    )


class _SortedLane:
    """One lane's observations, sorted once, so that a resample costs a repeat and not another sort."""

    def __init__(self, blocks: Sequence[Values]) -> None:
        values = np.concatenate([np.asarray(block, dtype=np.float64) for block in blocks] or [np.empty(0)])
        block_of = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
        order = np.argsort(values, kind="stable")
        self.values: Values = values[order]
        self._block_of = block_of[order]
        self._sizes = np.array([len(block) for block in blocks])

    def num_observed(self, counts: NDArray[np.intp]) -> int:
        return int(counts @ self._sizes)

    def quantiles(self, counts: NDArray[np.intp], qs: Sequence[float]) -> Values:
        """Quantiles of the sample in which block i stands `counts[i]` times."""
        resample = np.repeat(self.values, counts[self._block_of])
        position = (resample.size - 1) * np.asarray(qs, dtype=np.float64)
        below = np.floor(position).astype(np.intp)
        above = np.minimum(below + 1, resample.size - 1)
        weight = position - below
        mixed: Values = resample[below] * (1 - weight) + resample[above] * weight
        return mixed
