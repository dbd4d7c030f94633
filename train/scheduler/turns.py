"""What slots did with their time: turns, and how much of it was work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A job's time in a slot. All times are seconds since the epoch, durations seconds."""

    job: str
    """Empty where there was nothing to run."""
    began_s: float
    ended_s: float
    steps_s: float
    """Of it: steps. The rest is putting the run together, evaluating and saving it."""
    end: str
    """Why it ended: `done`, `gave_way`, `cancelled`, `failed`, `stopped`; `empty` where there was nothing to run."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Of one slot, from its first turn to its last; shares of the time in which there was something to run."""

    busy_share: float
    """A job held the slot."""
    steps_share: float
    """A job was in a step."""
    idle_s: float
    """Between turns, though there was something to run."""
    empty_s: float
    """Nothing to run; counted in no share."""


def utilisation(turns: Sequence[Turn]) -> Utilisation:
    """Of one slot's turns, in order; all 0 where there are none."""
    worked = [turn for turn in turns if turn.job]
    empty = sum(turn.ended_s - turn.began_s for turn in turns if not turn.job)
    wall = turns[-1].ended_s - turns[0].began_s - empty if turns else 0.0
    if wall <= 0:
        return Utilisation(0.0, 0.0, 0.0, empty)
    busy = sum(turn.ended_s - turn.began_s for turn in worked)
    steps = sum(turn.steps_s for turn in worked)
    return Utilisation(busy / wall, steps / wall, wall - busy, empty)
