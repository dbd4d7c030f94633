"""What recent requests would take, and how well they would fare, at each price of compute λ; and the inverse of both.

A request's price is a staircase in λ (`router.staircase`). Under a band of relative width `spread` each flip becomes a
ramp in ln λ, so the mean over the requests is continuous, piecewise linear in ln λ, and never rises: a target that
lies between its ends is met exactly, whatever the requests have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp, inf, log
from typing import Final

import numpy as np
import numpy.typing as npt

from router.staircase import Staircase

TOLERANCE: Final = 1e-9
"""Relative slack in comparing a mean with a target."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand curve of a window of requests, at its knots: linear in ln λ between them, flat beyond."""

    log_knots: Vector  # (2 · steps,), rising
    prices: Vector  # mean price of a request at each knot, never rises
    probabilities: Vector  # mean probability of success at each knot, never rises

    @property
    def least_price(self) -> float:
        """The mean price at λ = ∞."""
        return float(self.prices[-1])

    @property
    def greatest_price(self) -> float:
        """The mean price at a λ just above 0."""
        return float(self.prices[0])

    def price_at(self, price_of_compute: float) -> float:
        """The mean price of a request at λ."""
        return self._at(price_of_compute, self.prices)

    def probability_at(self, price_of_compute: float) -> float:
        """The mean probability of success at λ."""
        return self._at(price_of_compute, self.probabilities)

    def price_of_compute_for(self, target: float) -> float:
        """The least λ whose mean price is at most `target`; of a target out of reach, the λ that comes nearest."""
        is_met = self.prices <= target + TOLERANCE * abs(target)
        first = int(np.argmax(is_met)) if is_met.any() else len(self.prices) - 1
        if first == 0 or not is_met[first]:
            return exp(self.log_knots[first])
        return self._between(first - 1, first, self.prices, target)

    def price_of_compute_above(self, quality_floor: float) -> float:
        """The greatest λ whose mean probability of success is at least the floor.

        Infinite where every λ reaches it; where none does, the λ that comes nearest.
        """
        is_met = self.probabilities >= quality_floor - TOLERANCE
        if is_met[-1]:
            return inf
        if not is_met[0]:
            return exp(self.log_knots[0])
        last = int(np.argmin(is_met)) - 1
        return self._between(last, last + 1, self.probabilities, quality_floor)

    def _between(self, low: int, up: int, values: Vector, target: float) -> float:
        share = (values[low] - target) / (values[low] - values[up])
        log_price = self.log_knots[low] + share * (self.log_knots[up] - self.log_knots[low])
        return exp(min(max(log_price, self.log_knots[low]), self.log_knots[up]))

    def _at(self, price_of_compute: float, values: Vector) -> float:
        if price_of_compute <= 0:
            return float(values[0])
        return float(np.interp(log(price_of_compute), self.log_knots, values))


def demand(staircases: Sequence[Staircase], *, spread: float) -> Demand | None:
    """The demand of these requests, equally weighted; None where λ makes no difference to any of them."""
    log_rises = _flat(stairs.log_rises for stairs in staircases)
    if not len(log_rises):
        return None
    knots = np.concatenate((log_rises - spread / 2, log_rises + spread / 2))
    order = np.argsort(knots, kind="stable")
    knots = knots[order]

    def means(lowest: float, steps: Vector) -> Vector:
        slopes = np.cumsum(np.concatenate((-steps, steps))[order] / spread)
        falls = np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(knots))))
        # Summing leaves the last knot off the true end by rounding, and a later knot above an earlier one.
        curve = lowest - falls[-1] + falls
        curve[-1] = lowest
        return np.maximum.accumulate(curve[::-1])[::-1]

    num = len(staircases)
    return Demand(
        knots,
        means(
            sum(stairs.prices[0] for stairs in staircases) / num,
            _flat(stairs.price_steps for stairs in staircases) / num,
        ),
        means(
            sum(stairs.probabilities[0] for stairs in staircases) / num,
            _flat(stairs.probability_steps for stairs in staircases) / num,
        ),
    )


def _flat(rows: Iterable[Iterable[float]]) -> Vector:
    return np.fromiter(chain.from_iterable(rows), dtype=np.float64)
