"""Logistic regression on sparse rows: penalised maximum likelihood by L-BFGS, in numpy alone. Used offline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.encoding import Row

Floats = NDArray[np.float64]

MEMORY: Final = 8
"""Pairs that L-BFGS keeps (Liu & Nocedal 1989, doi:10.1007/BF01589116)."""
SUFFICIENT_DECREASE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Rows:
    """Sparse rows one after the other, over the columns that any of them has."""

    starts: NDArray[np.int64]
    """Where each row begins."""
    columns: NDArray[np.int64]
    """Positions in `names`."""
    values: NDArray[np.float32]
    names: NDArray[np.int64]
    """The columns' numbers as they were given."""

    @property
    def num(self) -> int:
        """Rows."""
        return len(self.starts)

    def dot(self, weights: Floats) -> Floats:
        """rows · weights; (columns,) → (rows,)."""
        padded = np.append(self.values * weights[self.columns], 0.0)
        sums = np.add.reduceat(padded, self.starts)
        is_empty = np.diff(self.starts, append=len(self.values)) == 0
        return np.where(is_empty, 0.0, sums)

    def transposed_dot(self, residuals: Floats) -> Floats:
        """rowsᵀ · residuals; (rows,) → (columns,)."""
        lengths = np.diff(self.starts, append=len(self.values))
        weights = self.values * np.repeat(residuals, lengths)
        return np.bincount(self.columns, weights=weights, minlength=len(self.names)).astype(np.float64)


def stack_rows(rows: Sequence[Row]) -> Rows:
    """The rows in their order."""
    names, columns = np.unique(np.concatenate([row.columns for row in rows]), return_inverse=True)
    lengths = np.array([len(row.columns) for row in rows])
    starts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)[:-1]))
    return Rows(starts, columns, np.concatenate([row.values for row in rows]), names)


def fit_logistic(rows: Rows, targets: Floats, *, penalty: float, max_steps: int = 80) -> tuple[Floats, float]:
    """Weights, over `rows.names`, and intercept that minimise Σ cross-entropy + penalty/2 · |weights|².

    `targets` lie in [0, 1] and are neither all 0 nor all 1; the intercept is not penalised.
    """

    def loss(point: Floats) -> tuple[float, Floats]:
        scores = rows.dot(point[:-1]) + point[-1]
        residuals = _sigmoid(scores) - targets
        entropy = float(np.sum(np.logaddexp(0.0, scores) - targets * scores))
        gradient = np.append(rows.transposed_dot(residuals) + penalty * point[:-1], residuals.sum())
        return entropy + penalty / 2 * float(point[:-1] @ point[:-1]), gradient

    share = targets.mean()
    start = np.append(np.zeros(len(rows.names)), np.log(share / (1 - share)))
    best = minimize(loss, start, max_steps=max_steps)
    return best[:-1], float(best[-1])


def minimize(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, *, max_steps: int, tolerance: float = 1e-5
) -> Floats:
    """The point that L-BFGS reaches: where a step gains less than `tolerance` of the loss, or after `max_steps`."""
    point, (value, gradient) = start, loss(start)
    pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)
    for _ in range(max_steps):
        direction = _direction(gradient, pairs)
        slope = float(gradient @ direction)
        size = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(gradient).sum() or 1.0))
        while True:
            moved = point + size * direction
            new_value, new_gradient = loss(moved)
            if new_value <= value + SUFFICIENT_DECREASE * size * slope or size < 1e-10:
                break
            size /= 2
        step, bend = moved - point, new_gradient - gradient
        if float(step @ bend) > 0:
            pairs.append((step, bend))
        gain = value - new_value
        point, value, gradient = moved, new_value, new_gradient
        if gain <= tolerance * abs(value):
            break
    return point


def _direction(
    gradient: Floats, pairs: Sequence[tuple[Floats, Floats]] | deque[tuple[Floats, Floats]]
) -> Floats:
    """−H·gradient by the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4)."""
    direction = -gradient
    kept = []
    for step, bend in reversed(pairs):
        share = float(step @ direction) / float(step @ bend)
        direction = direction - share * bend
        kept.append(share)
    if pairs:
        step, bend = pairs[-1]
        direction = direction * (float(step @ bend) / float(bend @ bend))
    for (step, bend), share in zip(pairs, reversed(kept), strict=True):
        direction = direction + (share - float(bend @ direction) / float(step @ bend)) * step
    return direction


def _sigmoid(scores: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
