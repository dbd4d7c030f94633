"""One request as its client saw it: when each thing happened, on one monotonic clock, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A finished request. Times are seconds on a monotonic clock; None where it never came to that.

    Latencies count from `scheduled_s`, the moment at which the load wanted the request sent, and not from
    when the client got round to it: otherwise a stall hides itself by delaying the very requests that would
    have shown it ("coordinated omission").
    """

    scheduled_s: float
    is_streaming: bool
    sent_s: float | None
    """Request handed to the socket; includes the wait for a free connection."""
    is_reused_connection: bool
    headers_s: float | None
    """Response headers."""
    token_times_s: tuple[float, ...]
    """Arrival of each event that carried output (text, reasoning or tool call). Empty for non-streams."""
    ended_s: float
    status: int | None
    error: str | None
    """Why the request does not count as answered; None for a complete answer."""
    tier: str | None = None
    """`x-tierwise-tier`."""
    num_output_tokens: int | None = None
    """By the answer's own usage."""
    request_id: str | None = None
    """`x-request-id`."""
    text: str = ""
    """What was said, of the first choice; without reasoning and tool calls."""

    @property
    def e2e_s(self) -> float:
        """Scheduled → last byte."""
        return self.ended_s - self.scheduled_s

    @property
    def ttft_s(self) -> float | None:
        """Scheduled → first event with output: the client's time to first token."""
        return self.token_times_s[0] - self.scheduled_s if self.token_times_s else None

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Each gap between two events with output."""
        return tuple(after - before for before, after in pairwise(self.token_times_s))

    @property
    def tpot_s(self) -> float | None:
        """`(e2e − TTFT) / (num_output_tokens − 1)`; None for at most one token or where usage is unknown."""
        if self.ttft_s is None or self.num_output_tokens is None or self.num_output_tokens <= 1:
            return None
        return (self.e2e_s - self.ttft_s) / (self.num_output_tokens - 1)

    @property
    def send_lateness_s(self) -> float | None:
        """Scheduled → sent: the load generator's own share of the latency."""
        return None if self.sent_s is None else self.sent_s - self.scheduled_s
