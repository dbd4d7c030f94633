"""The Prometheus series of shadow runs. What they cost is here alone, and in no series of the clients' requests."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter

from serving.telemetry.metrics import OTHER


class RunEnd(StrEnum):
    """How a shadow run ended. A closed list: it labels a series."""

    SUFFICED = "sufficed"
    """The weaker arm's answer was as good as the stronger one's; graded 1."""
    FELL_SHORT = "fell_short"
    """It was not; graded 0."""
    INCOMPARABLE = "incomparable"
    """No rule of agreement can tell, or the judge did not stay with its verdict; not graded."""
    UNPARSABLE = "unparsable"
    """The judge's verdict was none; not graded."""
    UNJUDGED = "unjudged"
    """Nobody was to judge, or the judge could not be asked."""
    FAILED = "failed"
    """An engine failed, or refused."""
    GAVE_WAY = "gave_way"
    """A client's request came and took the place."""
    SHUTDOWN = "shutdown"
    """The gateway ended."""


class Skip(StrEnum):
    """Why a request that the lot fell on has no shadow run. A closed list."""

    UNSUITABLE = "unsuitable"
    """Tools, several choices, a long body, another endpoint, or anything that an engine may keep."""
    UNANSWERED = "unanswered"
    """The client got no whole answer of text."""
    NO_ARM = "no_arm"
    """No other arm can answer it."""
    IN_FLIGHT = "in_flight"
    """As many runs as may be are under way."""
    BUSY = "busy"
    """The arm's tier had to do."""
    COST = "cost"
    """The hour's cap would not bear it."""


class ShadowSeries:
    """Moves them. Arms that are not configured count as `other`."""

    def __init__(self, registry: CollectorRegistry, *, arms: Iterable[str]) -> None:
        self._arms = frozenset(arms)
        runs = Counter("tierwise_shadow_runs_total", "Shadow runs.", ["outcome"], registry=registry)
        text = "Requests that the lot fell on and that have no shadow run."
        skipped = Counter("tierwise_shadow_skipped_total", text, ["reason"], registry=registry)
        text = "Money for shadow runs and their judges, which is in no client's cost."
        self._cost = Counter("tierwise_shadow_cost_total", text, ["arm"], registry=registry)
        self._runs = {end: runs.labels(end.value) for end in RunEnd}
        self._skipped = {skip: skipped.labels(skip.value) for skip in Skip}

    def ended(self, end: RunEnd) -> None:
        """A run ended."""
        self._runs[end].inc()

    def skipped(self, reason: Skip) -> None:
        """A drawn request is not run."""
        self._skipped[reason].inc()

    def spent(self, arm: str, cost: float) -> None:
        """An attempt of a run cost so much."""
        self._cost.labels(arm if arm in self._arms else OTHER).inc(cost)
