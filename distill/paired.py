"""How much of a teacher's score a candidate keeps, when both answered the same items; with bootstrap intervals.

Items are drawn anew with replacement, in each domain as many as it has, and both sides' scores of an item stay together
(Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8): what makes an item hard for both is in no
interval. Bounds are the 2.5 and 97.5 percentiles of the draws. A handful of items cannot tell how far they might have
been otherwise, so intervals of few items are too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

NUM_DRAWS: Final = 4000
_BOUNDS: Final = (2.5, 97.5)
_Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Scores of one domain's items, of both sides in the same order; each in [0, 1]."""

    candidate: Sequence[float]
    teacher: Sequence[float]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a candidate keeps."""

    retention: Estimate | None
    """Its macro mean over domains as a share of the teacher's; None where the teacher scores nothing. Draws in which
    the teacher scores nothing count as 0."""
    differences: Mapping[str, Estimate]
    """Domain → candidate − teacher, of mean scores."""


def kept(pairs: Mapping[str, Pair], *, seed: int, num_draws: int = NUM_DRAWS) -> Kept:
    """Compare both sides.

    Args:
        pairs: by domain.
        seed: of the draws.
        num_draws: of the bootstrap.

    Raises:
        ValueError: there is no domain, one has no items, or its sides have different numbers of them.
    """
    if not pairs or not all(len(each.candidate) == len(each.teacher) > 0 for each in pairs.values()):
        raise ValueError("retention is of items that both sides answered, at least one in each domain")
    generator = np.random.default_rng(seed)
    drawn = {domain: _drawn_means(pair, generator, num_draws) for domain, pair in pairs.items()}
    mine, theirs = (
        np.mean([np.mean(side) for side in sides])
        for sides in zip(*((pair.candidate, pair.teacher) for pair in pairs.values()), strict=True)
    )
    mine_drawn, theirs_drawn = (np.mean(sides, axis=0) for sides in zip(*drawn.values(), strict=True))
    shares = np.divide(mine_drawn, theirs_drawn, out=np.zeros(num_draws), where=theirs_drawn > 0)
    return Kept(
        retention=_estimate(float(mine / theirs), shares) if theirs > 0 else None,
        differences={
            domain: _estimate(
                float(np.mean(pair.candidate) - np.mean(pair.teacher)), np.subtract(*drawn[domain])
            )
            for domain, pair in pairs.items()
        },
    )


def _drawn_means(pair: Pair, generator: np.random.Generator, num_draws: int) -> tuple[_Scores, _Scores]:
    """(draws,) each: mean scores of the items drawn, of the candidate and of the teacher."""
    chosen = generator.integers(len(pair.candidate), size=(num_draws, len(pair.candidate)))
    candidate, teacher = (
        np.asarray(side, np.float64)[chosen].mean(1) for side in (pair.candidate, pair.teacher)
    )
    return candidate, teacher


def _estimate(value: float, draws: _Scores) -> Estimate:
    low, high = np.percentile(draws, _BOUNDS)
    return Estimate(value, float(low), float(high))
