"""The gateway's Prometheus metrics: the few calls by which the request path moves the series of `series`.

Every label is bounded. Tiers, arms, endpoints and reasons are those configured and anything else counts as
`other`, so that a flood of junk model names costs no memory. Nothing here is global: a process makes one
`Metrics`, on a registry of its own. Series may be moved from any thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from router.decision import Reason
from serving.ledger.records import AttemptRecord, Outcome
from serving.telemetry.series import Series, TierSeries

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
"""What `Metrics.render` is written in."""
OTHER: Final = "other"
"""Label of a tier, arm, endpoint, reason or code that is not known."""
NONE: Final = "none"
"""Label of the tier and arm of a request that ended before one was chosen."""
ENDPOINTS: Final = ("chat", "completions", "responses", "embeddings", "models")
MAX_ERROR_CODES: Final = 32
"""How many codes `tierwise_stream_errors_total` tells apart: upstreams invent them, the rest is `other`."""

_CODES: Final = {int(status): str(int(status)) for status in HTTPStatus} | {499: "499", 529: "529"}
_ERROR_CODE = re.compile(r"[a-z0-9_]{1,48}")
_REASONS: Final = frozenset(reason.value for reason in Reason)


class Metrics:
    """The metrics of one gateway process.

    The request path calls `request_started`, `decided`, `token_gap`, `attempt_ended` and `request_ended`;
    pool, queue and supervisor move their own gauges through `tier(name)`; the ledger's are in `series`.
    """

    def __init__(
        self, registry: CollectorRegistry, *, tiers: Iterable[str], arms: Iterable[str], version: str
    ) -> None:
        self.registry = registry
        self.series = Series(registry)
        self.series.build_info.labels(version).set(1)
        ProcessCollector(registry=registry)  # memory, CPU seconds and open files, under their usual names

        self._tiers = {label: self.series.of_tier(label) for label in (*tiers, OTHER)}
        self._tier_labels: dict[str | None, str] = {name: name for name in self._tiers} | {None: NONE}
        self._arm_labels: dict[str | None, str] = {name: name for name in arms} | {None: NONE}
        in_flight = self.series.requests_in_flight
        self._in_flight = {label: in_flight.labels(label) for label in (*ENDPOINTS, OTHER)}
        # Children by bounded labels, because `labels()` takes a lock and makes strings anew each time.
        self._requests: dict[tuple[str, str, str, str], tuple[Counter, Histogram]] = {}
        self._decisions: dict[tuple[str, str], Counter] = {}
        self._error_codes: set[str] = set()

    def tier(self, name: str) -> TierSeries:
        """The series of a tier; those of `other` where it is not configured."""
        return self._tiers.get(name) or self._tiers[OTHER]

    def request_started(self, endpoint: str) -> None:
        """A request arrived. Needs one `request_ended` with the same endpoint, however it ends."""
        (self._in_flight.get(endpoint) or self._in_flight[OTHER]).inc()

    def request_ended(
        self, endpoint: str, *, tier: str | None, arm: str | None, code: int, seconds: float
    ) -> None:
        """A request ended. `code` is the status sent, 499 where the client left first."""
        endpoint = endpoint if endpoint in self._in_flight else OTHER
        tier, arm = self._tier_labels.get(tier, OTHER), self._arm_labels.get(arm, OTHER)
        labels = endpoint, tier, arm, _CODES.get(code, OTHER)
        children = self._requests.get(labels)
        if children is None:
            total = self.series.requests_total.labels(*labels)
            children = self._requests[labels] = total, self.series.request_seconds.labels(endpoint, tier)
        self._in_flight[endpoint].dec()
        children[0].inc()
        children[1].observe(seconds)

    def decided(self, arm: str, reason: str) -> None:
        """The router chose `arm`."""
        labels = self._arm_labels.get(arm, OTHER), reason if reason in _REASONS else OTHER
        child = self._decisions.get(labels)
        if child is None:
            child = self._decisions[labels] = self.series.decisions_total.labels(*labels)
        child.inc()

    def token_gap(self, tier: str) -> Callable[[float], None]:
        """What to call with each gap in seconds between two token arrivals; resolve it once a stream."""
        return self.tier(tier).itl.observe

    def attempt_ended(self, record: AttemptRecord, *, is_streaming: bool) -> None:
        """Account for one attempt: outcome, tokens, cost, and TTFT and TPOT of a stream the client saw.

        An answer sent whole has no first token to time, hence `is_streaming`. TPOT is undefined for fewer
        than two tokens, and for a stream cut short, whose end is not its last token's.
        """
        series = self.tier(record.tier)
        series.attempts[record.outcome].inc()
        series.count_tokens(record.usage)
        if record.cost:
            series.cost.inc(record.cost)
        if record.attempt > 0:
            series.retries.inc()
        if not (is_streaming and record.is_committed) or record.first_token_s is None:
            return
        series.ttft.observe(record.first_token_s)
        num_tokens = record.usage.completion_tokens or 0
        if record.outcome is Outcome.SUCCESS and num_tokens > 1:
            series.tpot.observe((record.ended_s - record.first_token_s) / (num_tokens - 1))

    def stream_failed(self, tier: str, code: str) -> None:
        """An error event with this code ended a stream."""
        if code not in self._error_codes:
            if len(self._error_codes) < MAX_ERROR_CODES and _ERROR_CODE.fullmatch(code):
                self._error_codes.add(code)
            else:
                code = OTHER
        self.series.stream_errors_total.labels(self._tier_labels.get(tier, OTHER), code).inc()

    def render(self) -> bytes:
        """The registry in Prometheus' text format, whose type is `CONTENT_TYPE`."""
        return generate_latest(_WithoutCreated(self.registry))


class _WithoutCreated(Collector):
    """A registry without the `_created` samples, which this text format turns into as many series again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
