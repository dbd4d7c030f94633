"""Tests of serving.telemetry.metrics."""

from __future__ import annotations

import timeit
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from serving.ledger.records import AttemptRecord, Outcome, Usage
from serving.telemetry.metrics import MAX_ERROR_CODES, Metrics
from tests import ledger_records

ATTEMPT = replace(
    ledger_records.ATTEMPT,
    request_id="r1",
    first_token_s=0.2,
    ended_s=1.2,
    usage=Usage(prompt_tokens=7, completion_tokens=11, cached_tokens=3),
    cost=0.25,
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry(), tiers=("fast", "full"), arms=("fast", "full-think"), version="1.2.3")


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"tierwise_{name}", labels)


def test_a_streamed_request_moves_every_series_it_should(metrics: Metrics) -> None:
    """One request by hand: 10 tokens in the second after the first is a TPOT of 0.1 s."""
    metrics.request_started("chat")
    assert value(metrics, "requests_in_flight", endpoint="chat") == 1
    metrics.decided("fast", "best_value")
    metrics.token_gap("fast")(0.02)
    metrics.attempt_ended(ATTEMPT, is_streaming=True)
    metrics.request_ended("chat", tier="fast", arm="fast", code=200, seconds=1.2)

    assert value(metrics, "requests_in_flight", endpoint="chat") == 0
    assert value(metrics, "requests_total", endpoint="chat", tier="fast", arm="fast", code="200") == 1
    assert value(metrics, "request_seconds_sum", endpoint="chat", tier="fast") == 1.2
    assert value(metrics, "decisions_total", arm="fast", reason="best_value") == 1
    assert value(metrics, "attempts_total", tier="fast", outcome="success") == 1
    assert value(metrics, "tokens_total", tier="fast", kind="prompt") == 7
    assert value(metrics, "tokens_total", tier="fast", kind="completion") == 11
    assert value(metrics, "tokens_total", tier="fast", kind="cached") == 3
    assert value(metrics, "cost_total", tier="fast") == 0.25
    assert value(metrics, "ttft_seconds_sum", tier="fast") == 0.2
    assert value(metrics, "tpot_seconds_sum", tier="fast") == pytest.approx(0.1)
    assert value(metrics, "itl_seconds_sum", tier="fast") == 0.02
    assert value(metrics, "retries_total", tier="fast") == 0


@pytest.mark.parametrize(
    ("attempt", "is_streaming", "num_ttft", "num_tpot"),
    [
        (ATTEMPT, True, 1, 1),
        (ATTEMPT, False, 0, 0),
        (replace(ATTEMPT, is_committed=False), True, 0, 0),
        (replace(ATTEMPT, first_token_s=None), True, 0, 0),
        (replace(ATTEMPT, outcome=Outcome.CANCELLED), True, 1, 0),
        (replace(ATTEMPT, usage=Usage(completion_tokens=1)), True, 1, 0),
        (replace(ATTEMPT, usage=Usage()), True, 1, 0),
    ],
    ids=["stream", "whole answer", "held back", "no token", "cut short", "one token", "no usage"],
)
def test_ttft_and_tpot_are_observed_only_where_they_are_defined(
    metrics: Metrics, attempt: AttemptRecord, is_streaming: bool, num_ttft: int, num_tpot: int
) -> None:
    """A whole answer, a cut stream and a single token have no TPOT; what the client never saw has no TTFT."""
    metrics.attempt_ended(attempt, is_streaming=is_streaming)
    assert value(metrics, "ttft_seconds_count", tier="fast") == num_ttft
    assert value(metrics, "tpot_seconds_count", tier="fast") == num_tpot


def test_only_attempts_after_the_first_are_retries(metrics: Metrics) -> None:
    """Three attempts of one request are two retries, each counted at the tier that was asked."""
    for index, tier in enumerate(("fast", "fast", "full")):
        metrics.attempt_ended(replace(ATTEMPT, attempt=index, tier=tier), is_streaming=True)
    assert value(metrics, "retries_total", tier="fast") == 1
    assert value(metrics, "retries_total", tier="full") == 1


def test_a_flood_of_junk_names_adds_no_series(metrics: Metrics) -> None:
    """Names, codes and reasons nobody configured all count as `other`, and memory does not grow with them."""

    def send(junk: str, code: int) -> None:
        metrics.request_started(junk)
        metrics.decided(junk, junk)
        metrics.token_gap(junk)(0.1)
        metrics.tier(junk).queue_length.inc()
        metrics.attempt_ended(replace(ATTEMPT, tier=junk, arm=junk), is_streaming=True)
        metrics.stream_failed(junk, "upstream_reset")
        metrics.request_ended(junk, tier=junk, arm=junk, code=code, seconds=0.1)

    send("first", 999)
    size = len(metrics.render().splitlines())
    for index in range(2_000):
        send(f"junk-{index}", 1_000 + index)

    assert len(metrics.render().splitlines()) == size
    labels = {"endpoint": "other", "tier": "other", "arm": "other", "code": "other"}
    assert value(metrics, "requests_total", **labels) == 2_001
    assert value(metrics, "requests_in_flight", endpoint="other") == 0
    assert value(metrics, "decisions_total", arm="other", reason="other") == 2_001
    assert value(metrics, "attempts_total", tier="other", outcome="success") == 2_001


def test_error_codes_beyond_the_first_few_count_as_other(metrics: Metrics) -> None:
    """Upstreams invent codes: those seen first keep their name, and the sum is kept."""
    for index in range(MAX_ERROR_CODES + 10):
        metrics.stream_failed("fast", f"code_{index}")
    metrics.stream_failed("fast", "code_0")
    assert value(metrics, "stream_errors_total", tier="fast", code="code_0") == 2
    assert value(metrics, "stream_errors_total", tier="fast", code="other") == 10


@pytest.mark.parametrize("code", ["", "Two words", "tw-Ab3_-Ab3_-Ab3_-Ab3_-", "x" * 100])
def test_what_is_no_code_does_not_become_a_label(metrics: Metrics, code: str) -> None:
    """An upstream may put any text there, a client's among it."""
    metrics.stream_failed("fast", code)
    assert value(metrics, "stream_errors_total", tier="fast", code="other") == 1
    assert value(metrics, "stream_errors_total", tier="fast", code=code) is None


def test_a_request_that_ended_before_a_decision_has_no_tier(metrics: Metrics) -> None:
    """`none` is not `other`: nothing unknown was asked for."""
    metrics.request_started("chat")
    metrics.request_ended("chat", tier=None, arm=None, code=401, seconds=0.001)
    assert value(metrics, "requests_total", endpoint="chat", tier="none", arm="none", code="401") == 1


def test_every_series_is_ours_parses_and_has_a_known_label(metrics: Metrics) -> None:
    """The exposition is valid, prefixed, in base units, without `_created`, and starts at zero."""
    allowed = {"endpoint", "tier", "arm", "code", "reason", "outcome", "kind", "version", "le"}
    families = list(text_string_to_metric_families(metrics.render().decode()))
    ours = [family for family in families if family.name.startswith("tierwise_")]
    assert {family.name.split("_")[0] for family in families} == {"tierwise", "process"}
    for sample in (sample for family in ours for sample in family.samples):
        assert set(sample.labels) <= allowed
        assert not sample.name.endswith(("_created", "_ms", "_milliseconds"))
    assert value(metrics, "attempts_total", tier="full", outcome="failure") == 0
    assert value(metrics, "build_info", version="1.2.3") == 1


def test_two_gateways_in_one_process_do_not_share_series() -> None:
    """Nothing is global: what one counts the other does not see."""
    one, two = (Metrics(CollectorRegistry(), tiers=("fast",), arms=("fast",), version="1") for _ in range(2))
    one.decided("fast", "best_value")
    assert value(one, "decisions_total", arm="fast", reason="best_value") == 1
    assert value(two, "decisions_total", arm="fast", reason="best_value") is None


def test_accounting_fits_in_the_hot_path(metrics: Metrics) -> None:
    """A request's accounting stays under 50 µs and a token's under 1.5 µs; 8 and 0.8 µs were measured."""

    def request() -> None:
        metrics.request_started("chat")
        metrics.decided("fast", "best_value")
        metrics.attempt_ended(ATTEMPT, is_streaming=True)
        metrics.request_ended("chat", tier="fast", arm="fast", code=200, seconds=1.2)

    observe = metrics.token_gap("fast")
    # The least of many short runs, so that a busy machine does not fail it.
    assert min(timeit.repeat(request, number=100, repeat=50)) / 100 < 50e-6
    assert min(timeit.repeat(lambda: observe(0.02), number=1_000, repeat=50)) / 1_000 < 1.5e-6
