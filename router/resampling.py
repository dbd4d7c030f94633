"""The bootstrap: how far a figure would move on other requests of the same kind.

Requests are resampled by counting: a draw says how often each request counts, and a figure is computed from those
counts for many draws at once. Whole groups are drawn with replacement, so that near-duplicates do not pass for
independent evidence (Efron & Tibshirani 1993, chapter 8; percentile intervals).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Figure = Callable[[Floats], Floats]
"""From counts, (draws, requests), to a figure or several, (draws,) or (draws, figures)."""

MAX_CELLS: Final = 2**21
"""Counts that are looked at at a time: it bounds the memory of a figure."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and the middle 95 % of what it is on resampled data."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Resamples:
    """Draws of a set of requests. Figures of the same draws may be subtracted from each other."""

    group_counts: NDArray[np.uint16]
    """(draws, groups)."""
    places: NDArray[np.int64]
    """The group of each request."""

    @classmethod
    def draw(cls, groups: NDArray[np.int64], generator: np.random.Generator, *, num_draws: int) -> Self:
        """Draws of requests with these group numbers."""
        names, places = np.unique(groups, return_inverse=True)
        num = len(names)
        counts = np.stack(
            [np.bincount(generator.integers(num, size=num), minlength=num) for _ in range(num_draws)]
        )
        return cls(counts.astype(np.uint16), places)

    def select(self, requests: NDArray[np.int64]) -> Resamples:
        """The same draws, of some requests alone."""
        return Resamples(self.group_counts, self.places[requests])

    def estimate(self, figure: Figure) -> Estimate:
        """`figure` of every request once, with its interval."""
        return self.estimates(figure)[0]

    def estimates(self, figure: Figure) -> tuple[Estimate, ...]:
        """As `estimate`, for a figure of several numbers."""
        num_requests = len(self.places)
        values = np.atleast_2d(figure(np.ones((1, num_requests))).T)[:, 0]
        # A draw of few groups can miss all of these requests: it says nothing of them.
        counts = self.group_counts[self.group_counts[:, np.unique(self.places)].any(axis=1)]
        step = max(1, MAX_CELLS // num_requests)
        drawn = np.concatenate(
            [
                np.atleast_2d(figure(counts[at : at + step][:, self.places].astype(float)).T)
                for at in range(0, len(counts), step)
            ],
            axis=1,
        )
        return tuple(_estimate(float(value), draws) for value, draws in zip(values, drawn, strict=True))


def _estimate(value: float, draws: Floats) -> Estimate:
    """Draws that give no number are left out; where none does there is no interval."""
    finite = draws[np.isfinite(draws)]
    low, high = np.percentile(finite, (2.5, 97.5)) if len(finite) else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))
