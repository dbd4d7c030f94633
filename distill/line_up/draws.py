"""Intervals of figures of several models on the same items, and of rates that were taken in the same rounds.

Items are drawn as `paired` draws them, in each domain as many as it has, and all models' figures of an item stay
together. Rates are drawn by rounds, for figures that need both. The interval of a ratio of rates alone is that of a
median by order statistics, which asks nothing of how ratios are distributed: between the least and the greatest of six
lies the median with 97 % (David and Nagaraja, Order Statistics, 2003, section 7.1). Fewer rounds have no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import Final

import numpy as np
import numpy.typing as npt

from distill.paired import NUM_DRAWS, Estimate

Floats = npt.NDArray[np.float64]
COVERAGE: Final = 0.95
_BOUNDS: Final = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Draws:
    """How often each draw has each item: by domain (1 + draws, items), the first line having each once."""

    counts: Mapping[str, Floats]

    @classmethod
    def of(cls, sizes: Mapping[str, int], *, seed: int, num_draws: int = NUM_DRAWS) -> Draws:
        """Of domains with so many items."""
        generator = np.random.default_rng(seed)
        counts = {}
        for domain, size in sizes.items():
            chosen = generator.multinomial(size, np.full(size, 1 / size), size=num_draws)
            counts[domain] = np.vstack((np.ones(size), chosen.astype(np.float64)))
        return cls(counts)

    def macro(self, values: Mapping[str, Sequence[float]]) -> Floats:
        """(1 + draws,): the mean over domains of the mean over items."""
        means = [
            self.counts[domain] @ np.asarray(each, np.float64) / len(each) for domain, each in values.items()
        ]
        return np.asarray(np.mean(means, axis=0), np.float64)

    def total(self, values: Mapping[str, npt.ArrayLike]) -> Floats:
        """(1 + draws,): the sum over all items."""
        sums = [self.counts[domain] @ np.asarray(each, np.float64) for domain, each in values.items()]
        return np.asarray(np.sum(sums, axis=0), np.float64)


def estimate(figure: Floats) -> Estimate | None:
    """A figure of all draws, the first being the value: percentiles that are draws themselves, since some draws may be
    infinite; None where the value is no number."""
    value, drawn = float(figure[0]), figure[1:]
    drawn = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not len(drawn):
        return None
    low, high = np.percentile(drawn, _BOUNDS, method="inverted_cdf")
    return Estimate(value, float(low), float(high))


def ratio(above: Floats, below: Floats) -> Floats:
    """Not a number for 0 of 0, infinite for something of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below, np.float64)


@dataclass(frozen=True, slots=True)
class Speed:
    """A rate beside the reference's, round by round."""

    tokens_per_s: float
    """The median over rounds."""
    ratio: float
    """The median over rounds of what it is of the reference's."""
    interval: tuple[float, float] | None
    """Of the ratio; None of too few rounds."""


def speed(mine: Sequence[float], reference: Sequence[float]) -> Speed:
    """Rates of the same rounds, at least one."""
    ratios = sorted(one / other for one, other in zip(mine, reference, strict=True))
    rank = _rank(len(ratios))
    interval = None if rank is None else (ratios[rank], ratios[len(ratios) - 1 - rank])
    return Speed(median(mine), median(ratios), interval)


def token_s_drawn(rates: Sequence[float], chosen: npt.NDArray[np.int64]) -> Floats:
    """Seconds a token: of all rounds first, then of each line of rounds drawn, (draws, rounds)."""
    taken = np.asarray(rates, np.float64)
    return 1 / np.append(np.median(taken), np.median(taken[chosen], axis=1))


def _rank(num: int) -> int | None:
    """The greatest k for which [x₍ₖ₎, x₍ₙ₋₁₋ₖ₎], counted from 0, has the median with 95 %; None where none has."""
    outside, rank = 0.0, None
    for k in range(num // 2):
        outside += 2 * comb(num, k) / 2**num
        if 1 - outside < COVERAGE:
            break
        rank = k
    return rank
