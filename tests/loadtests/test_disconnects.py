"""`tierwise bench disconnects` finds what a gateway leaves behind, and nothing where nothing is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadtests.alarms import Alarms
from loadtests.departure_load import DepartureLoad
from loadtests.departures import LEFT, Departure, Phase, UsualTimes, phase_of
from loadtests.disconnect_options import DisconnectOptions, parse_options
from loadtests.disconnects import DisconnectReport, main, run_disconnects
from loadtests.fetch import FetchError
from loadtests.stream_client import ChatClient
from tests.fakes import MockUpstream, Script

MakeGateway = Callable[..., Any]
FAST = Script(ttft_s=0.01, itl_s=0.003, tokens=("a",) * 8, sends_headers_at_once=True)


def options(*argv: str) -> DisconnectOptions:
    return parse_options(["--requests", "150", "--concurrency", "16", "--settle", "1", *argv])


async def run(upstream: MockUpstream, gateway_url: str) -> DisconnectReport:
    return await run_disconnects(options(), url=gateway_url, engine_metrics_urls=[])


async def test_a_gateway_that_forgets_nothing_is_clean(stand_in_gateway: MakeGateway) -> None:
    """Every phase comes about, nothing fails, the gauges come to zero, and the upstream is free of every request."""
    async with MockUpstream(FAST) as upstream, stand_in_gateway(upstream.url) as url:
        report = await run(upstream, url)
        await upstream.until(lambda: upstream.num_active == 0)
        assert report.is_clean, report
        assert report.num_requests == 150
        assert sum(report.phases.values()) == 150
        assert all(count > 5 for count in report.phases.values()), report.phases
        assert len(upstream.aborts) > 30


async def test_a_gateway_that_counts_down_only_on_success_is_found_out(stand_in_gateway: MakeGateway) -> None:
    """The classic leak: whoever leaves stays counted for ever."""
    async with MockUpstream(FAST) as upstream, stand_in_gateway(upstream.url, leaks=True) as url:
        report = await run(upstream, url)
    assert not report.is_clean
    assert list(report.leftovers) == [f"{url}/metrics tierwise_requests_in_flight endpoint=chat"]
    assert report.errors == {}


async def test_failures_of_those_who_stay_are_told(stand_in_gateway: MakeGateway) -> None:
    """Some requests of the mix get 500: that is not clean, though every gauge is zero."""
    async with MockUpstream(FAST) as upstream, stand_in_gateway(upstream.url) as url:
        upstream.queue(*[FAST] * 16, *[Script(status=500, error={"message": "broken"})] * 5)
        report = await run(upstream, url)
    assert sum(report.errors.values()) > 0
    assert set(report.errors) == {"status 500: broken"}
    assert report.leftovers == {}
    assert not report.is_clean


async def test_a_server_without_our_gauges_is_refused(stand_in_gateway: MakeGateway) -> None:
    """Nobody could say that nothing was left behind."""
    async with MockUpstream(FAST) as upstream:
        with pytest.raises(FetchError, match="status 404"):
            await run(upstream, upstream.url)


def test_the_real_gateway_forgets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --url: gateway and mock come up, and after the mix neither of them has a request under way."""
    assert main(["--requests", "200", "--concurrency", "16", "--settle", "5", "--json"]) == 0
    report = orjson.loads(capsys.readouterr().out)
    assert report["leftovers"] == {}
    assert report["phases"]["mid_stream"] > 20
    assert report["phases"]["before_headers"] > 10


USUAL = UsualTimes(headers_s=0.03, first_token_s=0.03, num_tokens=8, whole_s=0.06)


@pytest.fixture
async def load() -> AsyncIterator[tuple[MockUpstream, DepartureLoad]]:
    alarms = Alarms(asyncio.get_running_loop())
    async with MockUpstream() as upstream:
        client = ChatClient(upstream.url, alarms=alarms, max_connections=4, timeout_s=5)
        yield upstream, DepartureLoad(client, alarms=alarms, prompts=["hi"], model="m", max_tokens=8)
        await client.close()
    alarms.close()


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.COMPLETE])
async def test_a_departure_falls_within_its_phase(
    load: tuple[MockUpstream, DepartureLoad], phase: Phase, fraction: float
) -> None:
    """Early in it and late in it, against an upstream at its usual pace."""
    upstream, clients = load
    upstream.script = Script(
        ttft_s=0.06, itl_s=0.002, tokens=("a",) * 8, sends_headers_at_once=phase is not Phase.BEFORE_HEADERS
    )
    departure = Departure(
        is_streaming=phase is not Phase.WHOLE, phase=phase, fraction=fraction, resets=fraction > 0
    )
    (timeline,) = await clients.run([departure], num_clients=1, usual=USUAL)
    assert timeline.error == LEFT
    assert phase_of(timeline) is phase
    await upstream.until(lambda: upstream.aborts)


async def test_a_phase_shorter_than_usual_is_still_left(load: tuple[MockUpstream, DepartureLoad]) -> None:
    """The headers come at once: a client that wanted to leave before them leaves with them, and never stays."""
    upstream, clients = load
    upstream.script = Script(ttft_s=5.0, sends_headers_at_once=True)
    departure = Departure(is_streaming=True, phase=Phase.BEFORE_HEADERS, fraction=0.9, resets=False)
    slow = UsualTimes(headers_s=60.0, first_token_s=60.0, num_tokens=8, whole_s=60.0)
    began_s = time.monotonic()
    (timeline,) = await clients.run([departure], num_clients=1, usual=slow)
    assert timeline.error == LEFT
    assert time.monotonic() - began_s < 2


def test_a_gateway_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1 and the reason."""
    assert main(["--url", "http://127.0.0.1:9", "--requests", "4", "--concurrency", "2"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("tierwise bench disconnects: no complete answer to learn the usual times from")
    assert "cannot connect" in error


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["--engine-metrics-url", "http://x/metrics"], "belongs to --url"),
        (["--requests", "0"], "not at least 1"),
        (["--api-key-file", "/no/such/file"], "cannot read /no/such/file"),
    ],
)
def test_wrong_use_is_refused(capsys: pytest.CaptureFixture[str], argv: list[str], hint: str) -> None:
    """Status 2 and what is wrong."""
    with pytest.raises(SystemExit) as refusal:
        main(argv)
    assert refusal.value.code == 2
    assert hint in capsys.readouterr().err


def test_keys_come_from_files(tmp_path: Path) -> None:
    """Without the newline that editors leave."""
    (tmp_path / "key").write_text("sk-1\n")
    assert options("--api-key-file", str(tmp_path / "key")).api_key == "sk-1"
