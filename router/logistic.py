"""Logistic regression on sparse rows: penalised maximum likelihood by L-BFGS, in numpy alone. Used offline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.calibration import sigmoid
from router.encoding import Row

Floats = NDArray[np.float64]

MEMORY: Final = 8
"""Pairs that L-BFGS keeps (Liu & Nocedal 1989, doi:10.1007/BF01589116)."""
SUFFICIENT_DECREASE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Rows:
    """Sparse rows, kept twice so that both products run through memory in order: row by row, and column by column."""

    names: NDArray[np.int64]
    """The columns that any row has, as they were given. Everything else here calls a column by its place in it."""
    row_starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    column_starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    values_by_column: NDArray[np.float32]

    def dot(self, weights: Floats) -> Floats:
        """rows · weights; (columns,) → (rows,)."""
        return _segment_sums(np.take(weights.astype(np.float32), self.columns) * self.values, self.row_starts)

    def transposed_dot(self, residuals: Floats) -> Floats:
        """rowsᵀ · residuals; (rows,) → (columns,)."""
        spread = np.take(residuals.astype(np.float32), self.rows)
        return _segment_sums(spread * self.values_by_column, self.column_starts)


def _segment_sums(terms: NDArray[np.float32], starts: NDArray[np.int64]) -> Floats:
    """Sums of the stretches that begin at `starts`, an empty one's being 0."""
    is_empty = np.diff(starts, append=len(terms)) == 0
    sums = np.add.reduceat(np.append(terms, np.float32(0)), starts)
    return np.where(is_empty, 0.0, sums).astype(np.float64)


def stack_rows(rows: Sequence[Row]) -> Rows:
    """The rows in their order."""
    names, columns = np.unique(np.concatenate([row.columns for row in rows]), return_inverse=True)
    values = np.concatenate([row.values for row in rows])
    lengths = np.array([len(row.columns) for row in rows])
    by_column = np.argsort(columns, kind="stable")
    return Rows(
        names=names,
        row_starts=np.cumsum(lengths) - lengths,
        columns=columns,
        values=values,
        column_starts=np.searchsorted(columns[by_column], np.arange(len(names))),
        rows=np.repeat(np.arange(len(rows)), lengths)[by_column],
        values_by_column=values[by_column],
    )


def fit_logistic(
    rows: Rows, targets: Floats, *, penalty: float, counts: Floats | None = None, max_steps: int = 80
) -> tuple[Floats, float]:
    """Weights, over `rows.names`, and intercept that minimise Σ count · cross-entropy + penalty/2 · |weights|².

    `targets` lie in [0, 1] and are neither all 0 nor all 1; a row counts as often as `counts` says, which may be less
    than once; once where that is absent. The intercept is not penalised.
    """
    times = np.ones(len(targets)) if counts is None else counts

    def loss(point: Floats) -> tuple[float, Floats]:
        scores = rows.dot(point[:-1]) + point[-1]
        residuals = times * (sigmoid(scores) - targets)
        entropy = float(np.sum(times * (np.logaddexp(0.0, scores) - targets * scores)))
        gradient = np.append(rows.transposed_dot(residuals) + penalty * point[:-1], residuals.sum())
        return entropy + penalty / 2 * _dot(point[:-1], point[:-1]), gradient

    share = np.average(targets, weights=times)
    start = np.append(np.zeros(len(rows.names)), np.log(share / (1 - share)))
    best = minimize(loss, start, max_steps=max_steps)
    return best[:-1], float(best[-1])


def minimize(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, *, max_steps: int, tolerance: float = 1e-5
) -> Floats:
    """The point that L-BFGS reaches: where a step gains less than `tolerance` of the loss, or after `max_steps`.

    The first step, which knows nothing of the curvature yet, is short and no reason to stop.
    """
    point, (value, gradient) = start, loss(start)
    pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
    for step_number in range(max_steps):
        direction = _direction(gradient, pairs)
        slope = _dot(gradient, direction)
        size = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(gradient).sum() or 1.0))
        while True:
            moved = point + size * direction
            new_value, new_gradient = loss(moved)
            if new_value <= value + SUFFICIENT_DECREASE * size * slope or size < 1e-10:
                break
            size /= 2
        step, bend = moved - point, new_gradient - gradient
        if _dot(step, bend) > 0:
            pairs.append((step, bend))
        gain = value - new_value
        point, value, gradient = moved, new_value, new_gradient
        if step_number and gain <= tolerance * abs(value):
            break
    return point


def _direction(
    gradient: Floats, pairs: Sequence[tuple[Floats, Floats]] | deque[tuple[Floats, Floats]]
) -> Floats:
    """−H·gradient by the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4)."""
    direction = -gradient
    kept = []
    for step, bend in reversed(pairs):
        share = _dot(step, direction) / _dot(step, bend)
        direction = direction - share * bend
        kept.append(share)
    if pairs:
        step, bend = pairs[-1]
        direction = direction * (_dot(step, bend) / _dot(bend, bend))
    for (step, bend), share in zip(pairs, reversed(kept), strict=True):
        direction = direction + (share - _dot(bend, direction) / _dot(step, bend)) * step
    return direction


def _dot(one: Floats, other: Floats) -> float:
    """Not by BLAS, which would split so long a vector among threads, and spin where cores are busy."""
    return float(np.sum(one * other))
