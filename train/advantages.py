"""From the scores of a group to advantages: who did better than the others on the same prompt.

The mean of the group is the baseline. By default nothing is divided by the group's deviation, which would make the
easiest and the hardest prompts count most (arXiv 2503.20783); instead each *domain* has one scale, the root mean
square of its advantages over the last groups, so that a domain with small differences is heard beside one with large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_SCALE: Final = 0.05
"""A domain whose scores hardly differ is not blown up beyond twenty times."""
MEMORY: Final = 0.95
"""Of the domain's mean square, what is kept at each group."""


def centred(scores: Sequence[float], *, by_deviation: bool = False, epsilon: float = 1e-4) -> Floats:
    """Scores less their mean; `by_deviation` also divides by the sample deviation plus `epsilon` (GRPO).

    They sum to zero. A group of one, or of equal scores, has no advantages: all are 0.
    """
    values = np.asarray(scores, dtype=np.float64)
    advantages: Floats = values - values.mean()
    if np.ptp(values) == 0:
        return np.zeros_like(values)
    if by_deviation:
        advantages /= values.std(ddof=1) + epsilon
    return advantages


def by_parts(parts: Sequence[Mapping[str, float]], weights: Mapping[str, float]) -> Floats:
    """Each named part of the score centred and scaled by itself, then added by weight (GDPO, arXiv 2601.05242).

    A part that all rollouts of the group share says nothing, however much it weighs. A part that a rollout lacks
    counts 0 for it.
    """
    total = np.zeros(len(parts))
    for name, weight in weights.items():
        total += weight * centred([each.get(name, 0.0) for each in parts], by_deviation=True)
    return total


@dataclass(slots=True)
class DomainScale:
    """The running root mean square of each domain's advantages."""

    mean_squares: dict[str, float] = field(default_factory=dict)

    def scaled(self, domain: str, advantages: Floats) -> Floats:
        """These advantages over the domain's scale, which takes them in first. A group without any changes nothing."""
        square = float(np.mean(advantages**2))
        if square == 0:
            return advantages
        before = self.mean_squares.get(domain, square)
        self.mean_squares[domain] = MEMORY * before + (1 - MEMORY) * square
        return advantages / max(LEAST_SCALE, sqrt(self.mean_squares[domain]))

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return dict(self.mean_squares)

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.mean_squares.update(plain)
