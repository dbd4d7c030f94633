"""The report of made-up runs whose numbers are known."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest
from rich.console import Console

from loadtests.blocks import Block, Lane
from loadtests.comparison import BlockResult, LoadResult
from loadtests.gateway_report import GatewayReport, Spent, make_report
from loadtests.gateway_tables import render
from loadtests.machine import Machine
from loadtests.measures import measures
from loadtests.process_usage import Usage
from loadtests.timeline import Timeline

MACHINE = Machine(cpu="a CPU", num_cores=2, system="Linux 6", python="3.11.7", versions={"uvloop": "0.23"})
NUM_PAIRS = 6
MIB = 2**20


def answer(lane: Lane, *, is_streaming: bool, error: str | None = None) -> Timeline:
    """Through the gateway everything is 2 ms later than the upstream's timetable."""
    late_s = 0.002 if lane is Lane.GATEWAY else 0.0
    tokens = tuple(1.05 + 0.01 * index + late_s for index in range(3)) if is_streaming else ()
    return Timeline(
        scheduled_s=1.0,
        is_streaming=is_streaming,
        sent_s=1.0,
        is_reused_connection=True,
        headers_s=1.0,
        token_times_s=tokens,
        ended_s=1.07 + late_s,
        status=200,
        error=error,
        tier="fast" if lane is Lane.GATEWAY else None,
    )


def block(lane: Lane, pair: int, *timelines: Timeline) -> BlockResult:
    empty = Block(lane=lane, pair=pair, starts_s=0.0, ends_s=1.0, requests=())
    return BlockResult(block=empty, timelines=timelines)


def run(
    *, errors: int = 0, lateness_s: float = 0.0001, generator_cpu_s: float = 0.6, **changes: Any
) -> GatewayReport:
    """Six pairs of one second, a stream and a whole answer in each block; `errors` of the gateway's wholes fail."""
    blocks = [
        block(
            lane,
            pair,
            answer(lane, is_streaming=True),
            answer(
                lane,
                is_streaming=False,
                error="status 500: x" if lane is Lane.GATEWAY and pair < errors else None,
            ),
        )
        for pair in reversed(range(NUM_PAIRS))
        for lane in Lane
    ]
    result = LoadResult(
        blocks=tuple(blocks),
        dispatch_lateness_s=(lateness_s,) * 24,
        generator_cpu_s=generator_cpu_s,
    )
    arguments: dict[str, Any] = {
        "machine": MACHINE,
        "shape": {"rate": 2.0},
        "measures": measures(ttft_s=0.05, itl_s=0.01),
        "load_s": 6.0,
        "gateway": Spent(
            before=Usage(cpu_s=1.0, rss_bytes=80 * MIB), after=Usage(cpu_s=1.6, rss_bytes=81 * MIB)
        ),
        "upstream": Spent(before=Usage(cpu_s=0.0, rss_bytes=MIB), after=Usage(cpu_s=1.2, rss_bytes=MIB)),
        "load_average": 0.3,
        "seed": 0,
    }
    return make_report(result, **arguments | changes)


def test_added_latency_is_the_gateways_share() -> None:
    """2 ms in every measure but the gaps, which a constant delay does not change."""
    report = run()
    added_s = {measure.name: measure.added_s["p50"].value for measure in report.measures}
    assert added_s == pytest.approx(
        {
            "whole_e2e": 0.002,
            "stream_ttft": 0.002,
            "stream_token_lateness": 0.002,
            "stream_itl": 0.0,
            "stream_e2e": 0.002,
        },
        abs=1e-9,
    )
    (whole, *_) = report.measures
    assert (whole.num_direct, whole.num_gateway) == (6, 6)
    assert whole.direct_s["p99"] == pytest.approx(0.07)
    assert whole.gateway_s["p99"] == pytest.approx(0.072)
    assert whole.added_s["p99"].low == pytest.approx(0.002)


def test_cost_is_per_request_of_the_gateways_lane() -> None:
    """0.6 s for twelve requests in six seconds of load."""
    cost = run().gateway
    assert cost is not None
    assert cost.cpu_s_per_request == pytest.approx(0.05)
    assert cost.cpu_share == pytest.approx(0.1)
    assert (cost.rss_before_bytes, cost.rss_after_bytes) == (80 * MIB, 81 * MIB)
    assert run(gateway=None).gateway is None


def test_lanes_count_answers_and_tokens_per_second_of_load() -> None:
    """Twelve answers and eighteen tokens in six seconds."""
    lane = run().lanes["gateway"]
    assert (lane.num_requests, lane.num_errors) == (12, 0)
    assert lane.answers_per_s == pytest.approx(2.0)
    assert lane.tokens_per_s == pytest.approx(3.0)
    assert lane.tiers == {"fast": 12}


def test_a_quiet_run_has_no_warnings() -> None:
    """5 % of a core for the generator, 10 % for each of the others."""
    report = run()
    assert report.warnings == ()
    assert report.generator.cpu_share == pytest.approx(0.05)
    assert report.generator.upstream_cpu_share == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"errors": 2}, "2 of 12 requests on the gateway lane failed"),
        ({"lateness_s": 0.002}, "the load generator was 2.0 ms late at p99"),
        ({"generator_cpu_s": 9.0}, "the load generator is the limit: it took 75% of a core"),
        (
            {"gateway": Spent(before=Usage(cpu_s=0, rss_bytes=0), after=Usage(cpu_s=9.9, rss_bytes=0))},
            "the machine is the limit: 90% of its cores",
        ),
    ],
)
def test_what_speaks_against_the_numbers_is_said(changes: dict[str, Any], warning: str) -> None:
    """Errors, a late or busy generator, a full machine: each by itself."""
    (said,) = run(**changes).warnings
    assert warning in said


def test_failures_are_counted_and_not_measured() -> None:
    """Two of six whole answers failed: four are left to measure."""
    report = run(errors=2)
    assert report.num_errors == 2
    assert report.lanes["gateway"].errors == {"status 500: x": 2}
    assert {m.name: m.num_gateway for m in report.measures}["whole_e2e"] == 4


def test_a_kind_that_was_not_answered_is_left_out() -> None:
    """All whole answers failed on one lane: there is nothing to compare."""
    assert "whole_e2e" not in {measure.name for measure in run(errors=6).measures}


def test_the_report_becomes_json_and_tables() -> None:
    """Both hold the added p50; the table in milliseconds."""
    report = run(errors=1)
    parsed = orjson.loads(orjson.dumps(dataclasses.asdict(report)))
    assert parsed["measures"][1]["added_s"]["p50"]["value"] == pytest.approx(0.002)
    console = Console(width=150, record=True)
    with console.capture() as capture:
        console.print(render(report))
    text = capture.get()
    assert "+2.00 [+2.00, +2.00]" in text
    assert "50.00 ms of CPU a request" in text
    assert "1 × status 500: x" in text
    assert "warning: 1 of 12 requests" in text
