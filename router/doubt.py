"""Doubt about forecasts, and which arms it leaves open: of one request, or of all of them for a while.

Doubt about one request, whose like the model has not seen, leaves the strongest arm alone: that of the dearest tier,
and there the one of most effort. Doubt about all of them (conservative mode) buys more compute, within an allowance:
the budget's target is raised, or, where nothing is held, λ is lowered. It does not close arms. An arm that gets no
requests gets no outcomes either, and the doubt about it would never end; and the order of forecasts, which decides who
goes up first, mostly outlives their level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

from router.arms import Arm
from router.difficulty import Forecast
from router.offer import Metric, Spend

MAX_SHARE: Final = 0.5
"""What single requests in doubt may take of a budget's target."""
SAVED_REQUESTS: Final = 100.0
"""Of so many requests what was not taken is kept for those to come."""


class DoubtKind(StrEnum):
    """Why the router is conservative. A closed list: it labels metrics and appears in `x-tierwise-conservative`."""

    INPUT = "input"
    """What is asked is not what was asked."""
    SCORE = "score"
    """What is forecast is not what was forecast."""
    OUTCOME = "outcome"
    """Answers succeed less often than forecast."""
    CALIBRATION = "calibration"
    """Forecasts are too far from outcomes, either way (`router.calibration_gate`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What a request is decided under."""

    kinds: tuple[DoubtKind, ...] = ()
    """Why the router is conservative; empty where it is not. Recorded; what it buys is in the pricing."""
    max_price: float = inf
    """The most that doubt about this request alone may take, in the budget's metric. A budget is held so."""


NO_DOUBT: Final = Doubt()


@dataclass(slots=True)
class Ration:
    """What doubt about single requests may take while a budget is held: a share of the target, saved up to a bound.

    So a stretch of requests that are all out of distribution does not overrun the budget: some of them go up, and the
    rest is decided by value like any other.
    """

    left: float | None = None
    """None before the first request."""

    def fill(self, target: float) -> None:
        """A request came; `target` is what one may take on average."""
        most = MAX_SHARE * target * SAVED_REQUESTS
        self.left = most if self.left is None else min(most, self.left + MAX_SHARE * target)

    def take(self, price: float) -> None:
        """A request in doubt went up."""
        self.left = max(0.0, (self.left or 0.0) - price)


def goes_up(
    open_to: Sequence[Arm],
    forecasts: Mapping[str, Forecast],
    spends: Mapping[str, Spend],
    *,
    metric: Metric,
    max_price: float,
) -> str | None:
    """The arm that a request in doubt goes to; None where it is not in doubt, or has not the means.

    It depends neither on λ nor on how hard the request is forecast to be.

    Args:
        open_to: the arms that can answer and that the client allows.
    """
    if len(open_to) < 2 or all(forecasts[arm.name].is_supported for arm in open_to):
        return None
    top = max(open_to, key=lambda arm: (arm.strength, arm.effort, metric.price(spends[arm.name])))
    return top.name if metric.price(spends[top.name]) <= max_price else None
