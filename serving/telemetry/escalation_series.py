"""The Prometheus series of hold-back: how trials end, how long they take, and what they waste."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

HOLD_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1, 2.5, 5)


class End(StrEnum):
    """How a trial ended. A closed list: it labels a series."""

    FLUSHED = "flushed"
    """The answer was good enough, and is passed on."""
    ESCALATED = "escalated"
    """The next arm answers instead."""
    TIMED_OUT = "timed_out"
    """The tokens came too slowly to judge; the answer is passed on."""
    ABANDONED = "abandoned"
    """The client left, or the engine failed, before the commit point."""


class EscalationSeries:
    """The series, on one registry."""

    def __init__(self, registry: CollectorRegistry, *, tiers: Iterable[str]) -> None:
        self._seconds = Histogram(
            "tierwise_hold_seconds",
            "From the headers of an answer on trial to its commit point.",
            buckets=HOLD_BUCKETS,
            registry=registry,
        )
        ends = Counter(
            "tierwise_holds_total", "Answers on trial, by how that ended.", ["tier", "end"], registry=registry
        )
        wasted = Counter(
            "tierwise_escalation_wasted_tokens_total",
            "Tokens of answers that were held back and never sent.",
            ["tier"],
            registry=registry,
        )
        self._ends = {(tier, end): ends.labels(tier, end.value) for tier in tiers for end in End}
        self._wasted = {tier: wasted.labels(tier) for tier, _ in self._ends}

    def ended(self, tier: str, end: End, *, seconds: float, num_wasted: int) -> None:
        """A trial of an answer from `tier` ended; of a wasted one, the tokens that had come."""
        self._seconds.observe(seconds)
        self._ends[tier, end].inc()
        self._wasted[tier].inc(num_wasted)
