"""When clients vanish: a random mix of the moments at which a request can be left. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from loadtests.timeline import Timeline

LEFT = "the client left"
"""The error in the timeline of a request that was left on purpose."""


class Phase(StrEnum):
    """Where a request stood when its client left."""

    COMPLETE = "complete"
    """It stayed to the end."""
    BEFORE_HEADERS = "before_headers"
    BEFORE_FIRST_TOKEN = "before_first_token"
    MID_STREAM = "mid_stream"
    WHOLE = "whole"
    """While it waited for an answer that does not stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What one client is going to do."""

    is_streaming: bool
    phase: Phase
    fraction: float
    """How far into the phase, in [0, 1) of its usual length."""
    resets: bool
    """Whether it leaves with a TCP reset instead of closing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualTimes:
    """How long things take while nobody leaves; the lengths that `Departure.fraction` divides."""

    headers_s: float
    """Sent → headers, streams."""
    first_token_s: float
    """Headers → first token."""
    num_tokens: int
    """Events with output in a stream."""
    whole_s: float
    """Sent → end, whole answers."""

    @classmethod
    def of(cls, timelines: Sequence[Timeline]) -> UsualTimes:
        """Medians over complete answers, of which there must be both kinds.

        Raises:
            ValueError: one kind is missing.
        """
        streams = [t for t in timelines if t.is_streaming and t.error is None and t.token_times_s]
        wholes = [t for t in timelines if not t.is_streaming and t.error is None]
        if not streams or not wholes:
            errors = sorted({t.error for t in timelines if t.error is not None})
            raise ValueError(f"no complete answer to learn the usual times from; errors: {errors}")
        return cls(
            headers_s=median(_between(t.sent_s, t.headers_s) for t in streams),
            first_token_s=median(_between(t.headers_s, t.token_times_s[0]) for t in streams),
            num_tokens=int(median(len(t.token_times_s) for t in streams)),
            whole_s=median(_between(t.sent_s, t.ended_s) for t in wholes),
        )


def plan_departures(num_requests: int, *, seed: int) -> tuple[Departure, ...]:
    """So many clients: every phase equally often in the long run, and every third departure with no delay at all."""
    rng = random.Random(seed)
    return tuple(_plan_one(rng) for _ in range(num_requests))


def phase_of(timeline: Timeline) -> Phase:
    """Where the request stood when it ended: what really happened, whatever was planned."""
    if timeline.error != LEFT:
        return Phase.COMPLETE
    if not timeline.is_streaming:
        return Phase.WHOLE
    if timeline.headers_s is None:
        return Phase.BEFORE_HEADERS
    return Phase.MID_STREAM if timeline.token_times_s else Phase.BEFORE_FIRST_TOKEN


def _plan_one(rng: random.Random) -> Departure:
    phase = rng.choice(tuple(Phase))
    is_streaming = rng.random() < 0.5 if phase is Phase.COMPLETE else phase is not Phase.WHOLE
    fraction = 0.0 if rng.random() < 1 / 3 else rng.random()
    return Departure(is_streaming=is_streaming, phase=phase, fraction=fraction, resets=rng.random() < 0.5)


def _between(before_s: float | None, after_s: float | None) -> float:
    assert before_s is not None, "an answer was complete without being sent"
    assert after_s is not None, "an answer was complete without headers"
    return after_s - before_s
