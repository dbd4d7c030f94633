"""Whether a log holds enough to say what another policy would have come to, and if not, why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from router.interval import Vector

MIN_OUTCOMES: Final = 50
MIN_SUPPORTING: Final = 100.0
"""Outcomes that a move is judged by, effectively. With fewer, intervals of 95 % held 85 to 93 in simulation."""
MAX_UNSUPPORTED_SHARE: Final = 0.01
"""Share of requests that may go where the log never goes."""
MIN_MOVED_SHARE: Final = 0.002
"""A policy that moves fewer requests is the logged one, for all that matters."""


class Lack(StrEnum):
    """Why there is no estimate."""

    TOO_FEW_OUTCOMES = "too_few_outcomes"
    """Of too few requests is it known what came of them."""
    NO_SUPPORT = "no_support"
    """Requests would go to arms that the log never tries for them. An exploration share would try them."""
    LITTLE_SUPPORT = "little_support"
    """The log tries those arms too rarely. More time, or a greater exploration share, would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The chance of the arm that was chosen under the new and the old policy."""

    new: Vector  # (decisions,)
    old: Vector  # (decisions,), above 0
    moved_share: float
    unsupported_share: float

    def num_supporting(self, is_known: npt.NDArray[np.bool_]) -> float:
        """Known outcomes that a move is judged by, effectively: at the arms left, or at those gone to if fewer."""
        moves = (self.new - self.old)[is_known] / self.old[is_known]
        return min(_effective_number(np.maximum(0.0, moves)), _effective_number(np.maximum(0.0, -moves)))

    def lack(self, num_outcomes: int, num_supporting: float) -> Lack | None:
        """Why there can be no estimate by so many outcomes; None where there can be one."""
        if num_outcomes < MIN_OUTCOMES:
            return Lack.TOO_FEW_OUTCOMES
        if self.unsupported_share > MAX_UNSUPPORTED_SHARE:
            return Lack.NO_SUPPORT
        if self.moved_share > MIN_MOVED_SHARE and num_supporting < MIN_SUPPORTING:
            return Lack.LITTLE_SUPPORT
        return None


def _effective_number(weights: Vector) -> float:
    """Kish's: so many equal weights would be as good."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0
