"""The catalogue of our Prometheus series: names, help, labels, buckets. `metrics` moves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from serving.ledger.records import Outcome, Usage

# Steps of about two over the range where an objective may lie: tokens come in milliseconds from a GPU, in
# tenths of a second from a laptop. Gaps have fewer buckets because every token walks them.
TTFT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 80)
GAP_BUCKETS: Final = (0.0025, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
REQUEST_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
QUEUE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSeries:
    """One tier's series with their labels resolved."""

    in_flight: Gauge
    """Moved by the pool."""
    queue_length: Gauge
    """Moved by the queue, as `queue_seconds` is."""
    queue_seconds: Histogram
    restarts: Counter
    """Moved by the supervisor, as `ready` is."""
    ready: Gauge
    ttft: Histogram
    tpot: Histogram
    itl: Histogram
    retries: Counter
    cost: Counter
    prompt_tokens: Counter
    completion_tokens: Counter
    cached_tokens: Counter
    drafted_tokens: Counter
    accepted_tokens: Counter
    attempts: dict[Outcome, Counter]

    def count_tokens(self, usage: Usage) -> None:
        """Add what the upstream says it used; what it does not say counts as nothing."""
        for counter, num_tokens in (
            (self.prompt_tokens, usage.prompt_tokens),
            (self.completion_tokens, usage.completion_tokens),
            (self.cached_tokens, usage.cached_tokens),
            (self.drafted_tokens, usage.drafted_tokens),
            (self.accepted_tokens, usage.accepted_tokens),
        ):
            if num_tokens:
                counter.inc(num_tokens)


class Series:
    """Every series of one process, made on `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"tierwise_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"tierwise_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"tierwise_{name}", text, labels, buckets=buckets, registry=registry)

        text = "Requests, by HTTP status; 499 where the client left, the error's where a stream broke."
        self.requests_total = counter("requests_total", text, "endpoint", "tier", "arm", "code")
        text = "From arrival to the last byte."
        self.request_seconds = histogram("request_seconds", text, REQUEST_BUCKETS, "endpoint", "tier")
        self.requests_in_flight = gauge("requests_in_flight", "Requests being answered.", "endpoint")
        self.decisions_total = counter("decisions_total", "Routing decisions.", "arm", "reason")
        text = "Streams that an error event ended after their first byte."
        self.stream_errors_total = counter("stream_errors_total", text, "tier", "code")

        text = "Streams: from arrival to the first token sent."
        self.ttft_seconds = histogram("ttft_seconds", text, TTFT_BUCKETS, "tier")
        text = "Streams: seconds per token after the first, one observation for each stream."
        self.tpot_seconds = histogram("tpot_seconds", text, GAP_BUCKETS, "tier")
        text = "Streams: each gap between two token arrivals."
        self.itl_seconds = histogram("itl_seconds", text, GAP_BUCKETS, "tier")
        text = "Tokens, as the upstream counts them: prompt, completion, cached, drafted, accepted."
        self.tokens_total = counter("tokens_total", text, "tier", "kind")
        self.cost_total = counter("cost_total", "Money, in the currency of the tiers' prices.", "tier")
        text = "Times an upstream was asked, by how it ended."
        self.attempts_total = counter("attempts_total", text, "tier", "outcome")
        self.retries_total = counter("retries_total", "Attempts after a request's first.", "tier")

        text = "Requests that hold one of the tier's replicas."
        self.replica_in_flight = gauge("replica_in_flight", text, "tier")
        text = "Requests that wait for one of the tier's replicas."
        self.queue_length = gauge("queue_length", text, "tier")
        text = "How long requests waited for a replica."
        self.queue_seconds = histogram("queue_seconds", text, QUEUE_BUCKETS, "tier")
        text = "Times the tier's engine was started again."
        self.engine_restarts_total = counter("engine_restarts_total", text, "tier")
        text = "1 while the tier's engine answers and has loaded its model."
        self.engine_ready = gauge("engine_ready", text, "tier")

        self.ledger_records_written_total = counter(
            "ledger_records_written_total", "Ledger records committed."
        )
        text = "Ledger records lost because the buffer was full."
        self.ledger_records_dropped_total = counter("ledger_records_dropped_total", text)
        self.build_info = gauge("build_info", "1, labelled with the version that runs.", "version")
        self.router_info = gauge(
            "router_info", "1, labelled with the difficulty model that decides.", "artifact"
        )

    def of_tier(self, label: str) -> TierSeries:
        """Resolve the labels of one tier, which also makes its series appear at zero."""
        tokens = self.tokens_total
        return TierSeries(
            in_flight=self.replica_in_flight.labels(label),
            queue_length=self.queue_length.labels(label),
            queue_seconds=self.queue_seconds.labels(label),
            restarts=self.engine_restarts_total.labels(label),
            ready=self.engine_ready.labels(label),
            ttft=self.ttft_seconds.labels(label),
            tpot=self.tpot_seconds.labels(label),
            itl=self.itl_seconds.labels(label),
            retries=self.retries_total.labels(label),
            cost=self.cost_total.labels(label),
            prompt_tokens=tokens.labels(label, "prompt"),
            completion_tokens=tokens.labels(label, "completion"),
            cached_tokens=tokens.labels(label, "cached"),
            drafted_tokens=tokens.labels(label, "drafted"),
            accepted_tokens=tokens.labels(label, "accepted"),
            attempts={outcome: self.attempts_total.labels(label, outcome.value) for outcome in Outcome},
        )
