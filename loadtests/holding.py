"""How well a share is held: the trailing mean of what was answered, and when it is back after a change. Pure.

The terms are the promise: within `TOLERANCE` of the target at the latest `MAX_SETTLE_S` after a change, and from then
on never beyond `LIMIT`, both of the mean over the requests of the last two minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 120.0
TOLERANCE: Final = 0.02
LIMIT: Final = 0.04
MAX_SETTLE_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One request."""

    at_s: float
    """When it was sent, from the beginning of the load."""
    is_full: bool
    """Whether the strongest tier answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What followed a change."""

    share: float
    """Of the requests after the change."""
    peak: float
    """The greatest deviation of the trailing share from the target, with its sign."""
    settle_s: float | None
    """From the change until the trailing share is within the tolerance and never again beyond the limit."""
    worst_after: float | None
    """The greatest deviation once settled, without sign."""

    @property
    def is_held(self) -> bool:
        """Whether the promise was kept."""
        return self.settle_s is not None and self.settle_s <= MAX_SETTLE_S


def trailing_share(answers: Sequence[Answered], at_s: float, *, window_s: float = WINDOW_S) -> float | None:
    """The share of the requests of the last `window_s`; None where there were none."""
    tiers = [answer.is_full for answer in answers if at_s - window_s < answer.at_s <= at_s]
    return sum(tiers) / len(tiers) if tiers else None


def holding(
    answers: Sequence[Answered],
    *,
    target: float,
    changed_at_s: float,
    until_s: float,
    window_s: float = WINDOW_S,
) -> Holding:
    """Judge each second from the change to the end."""
    num_seconds = int(until_s - changed_at_s)
    shares = [
        trailing_share(answers, changed_at_s + second, window_s=window_s)
        for second in range(1, num_seconds + 1)
    ]
    deviations = [0.0 if share is None else share - target for share in shares]
    settled = _settled_at(deviations)
    after = [answer.is_full for answer in answers if answer.at_s > changed_at_s]
    return Holding(
        share=sum(after) / len(after) if after else 0.0,
        peak=max(deviations, key=abs, default=0.0),
        settle_s=None if settled is None else float(settled),
        worst_after=None if settled is None else max(map(abs, deviations[settled:])),
    )


def _settled_at(deviations: Sequence[float]) -> int | None:
    beyond = [second for second, deviation in enumerate(deviations) if abs(deviation) > LIMIT]
    start = beyond[-1] + 1 if beyond else 0
    return next(
        (second for second in range(start, len(deviations)) if abs(deviations[second]) <= TOLERANCE), None
    )
