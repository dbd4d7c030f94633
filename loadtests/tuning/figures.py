"""How fast an engine is, in three figures; each is an objective that can be tuned for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

NUM_STREAMS: Final = 16


class Objective(StrEnum):
    """What is to become better."""

    ALONE = "alone"
    """Tokens/s of a lone stream, from its first token on."""
    STREAMS = f"streams={NUM_STREAMS}"
    """Tokens/s of so many streams together, from the first request to the last token: prompts included."""
    FIRST_TOKEN = "first-token"
    """Seconds from a lone request to its first token."""

    @property
    def unit(self) -> str:
        """Of the figure."""
        return "s" if self is Objective.FIRST_TOKEN else "tokens/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One measurement of one server."""

    alone_tokens_per_s: float
    streams_tokens_per_s: float
    first_token_s: float

    def figure(self, objective: Objective) -> float:
        """As one reads it, in the objective's unit."""
        match objective:
            case Objective.ALONE:
                return self.alone_tokens_per_s
            case Objective.STREAMS:
                return self.streams_tokens_per_s
            case Objective.FIRST_TOKEN:
                return self.first_token_s

    def over(self, other: Figures, objective: Objective) -> float:
        """How many times as good as `other`: above 1 is better, for seconds as well."""
        ratio = self.figure(objective) / other.figure(objective)
        return 1 / ratio if objective is Objective.FIRST_TOKEN else ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Two servers, measured one right after the other: slow noise of the machine falls on both."""

    reference: Figures
    candidate: Figures

    def ratio(self, objective: Objective) -> float:
        """How many times as good the candidate was."""
        return self.candidate.over(self.reference, objective)


def median_figure(measured: Sequence[Figures], objective: Objective) -> float:
    """The median of what was measured; at least once."""
    return median(each.figure(objective) for each in measured)
