"""What is compared between two lanes: how values are read off a request's timeline. Pure. Seconds throughout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from loadtests.quantiles import Values
from loadtests.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One quantity, observed once a request or once a token."""

    name: str
    title: str
    is_of_streams: bool
    read: Callable[[Timeline], Iterable[float]]

    def observe(self, timelines: Sequence[Timeline]) -> Values:
        """All values among the complete answers."""
        observed = [
            value
            for timeline in timelines
            if timeline.error is None and timeline.is_streaming == self.is_of_streams
            for value in self.read(timeline)
        ]
        return np.asarray(observed, dtype=np.float64)


def measures(*, ttft_s: float, itl_s: float) -> tuple[Measure, ...]:
    """The measures of `tierwise bench gateway`, for an upstream of that pace."""

    def token_lateness_s(timeline: Timeline) -> Iterable[float]:
        due_s = timeline.scheduled_s + ttft_s
        return (arrived_s - due_s - index * itl_s for index, arrived_s in enumerate(timeline.token_times_s))

    return (
        Measure(name="whole_e2e", title="whole answer", is_of_streams=False, read=lambda t: (t.e2e_s,)),
        Measure(name="stream_ttft", title="stream: TTFT", is_of_streams=True, read=_ttft_s),
        Measure(
            name="stream_token_lateness",
            title="stream: each token's lateness",
            is_of_streams=True,
            read=token_lateness_s,
        ),
        Measure(name="stream_itl", title="stream: ITL", is_of_streams=True, read=lambda t: t.itl_s),
        Measure(name="stream_e2e", title="stream: end to end", is_of_streams=True, read=lambda t: (t.e2e_s,)),
    )


def _ttft_s(timeline: Timeline) -> Iterable[float]:
    return () if timeline.ttft_s is None else (timeline.ttft_s,)
