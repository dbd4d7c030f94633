"""What a session remembers of its turns: up at once, and down slowly. State in, state out; time is a parameter.

"Commit it" after a hard turn looks easy and is not. So a turn is taken, with a weight w, for a continuation of the
hardest one that is still remembered: the probability of success decided on is `(1 − w)·p + w·p_remembered`, where that
is less than p. A turn at which going up, from the arm that was remembered as the unlikeliest to the likeliest, gains
more than it did then is decided by itself and remembered instead; so is one that puts the two the other way round.
Otherwise the mixture is what is remembered next, so a hard turn fades by the factor w with every easy one: the harder
it was, the longer the session stays up. w falls with each turn and with the time since the last one; both constants
are judgement, not measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KEPT_PER_TURN: Final = 0.7
HALF_LIFE_S: Final = 600.0
MIN_WEIGHT: Final = 0.02
"""Less than this is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMemory:
    """The probabilities of success, by arm, that the last turn was decided on."""

    probabilities: Mapping[str, float]
    at: float

    def recollection(self, now: float) -> Recollection:
        """What a turn at `now` has to reckon with."""
        weight = KEPT_PER_TURN * 0.5 ** (max(0.0, now - self.at) / HALF_LIFE_S)
        return (
            Recollection(probabilities=self.probabilities, weight=weight) if weight >= MIN_WEIGHT else NOTHING
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """What the past says about one request."""

    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of the remembered turn, by arm."""
    weight: float = 0.0
    """How far it counts, in [0, 1]."""
    pinned_arm: str | None = None
    """The arm that began the tool loop that the request goes on with. It goes on there while that arm can answer."""

    def weighed(self, forecast: Mapping[str, float]) -> Mapping[str, float]:
        """The probabilities to decide on, of a turn with this forecast; an arm not remembered keeps its own."""
        known = self.probabilities.keys() & forecast.keys()
        if not self.weight or not known:
            return forecast
        likeliest = max(known, key=self.probabilities.__getitem__)
        unlikeliest = min(known, key=self.probabilities.__getitem__)
        remembered = self.probabilities[likeliest] - self.probabilities[unlikeliest]
        if not 0 <= forecast[likeliest] - forecast[unlikeliest] < remembered:
            return forecast
        return {
            arm: p + self.weight * min(0.0, self.probabilities.get(arm, p) - p) for arm, p in forecast.items()
        }


NOTHING: Final = Recollection()
