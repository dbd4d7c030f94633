"""What a request does while the tier that it needs is down: waits for an engine of ours, and for nothing else."""

from __future__ import annotations

import asyncio
import time

from serving.ledger.records import Outcome
from serving.upstream.retry import RetryBudget
from tests.fakes import Fault, MockUpstream, Point, Script
from tests.live_gateway import CHILD, PRICES, LiveGateway, connected, external, post


async def test_an_engine_that_is_starting_is_waited_for() -> None:
    """A request that comes before its engine is up is answered once it is."""
    async with MockUpstream() as upstream, LiveGateway({"fast": []}, is_supervised=True) as gateway:
        waiting = asyncio.create_task(gateway.chat())
        await gateway.until(lambda: gateway.service.num_running)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        gateway.add_replica("fast", upstream.url)
        assert (await waiting).status_code == 200


async def test_waiting_for_an_engine_has_an_end() -> None:
    """An engine that does not come up in `queue_timeout_s` is a 503 without an invented `retry-after`."""
    async with LiveGateway({"fast": []}, is_supervised=True, queue_timeout_s=0.3) as gateway:
        began = time.monotonic()
        answer = await gateway.chat()
        assert 0.3 <= time.monotonic() - began < 1.5
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "tier_unavailable")
        assert "retry-after" not in answer.headers


async def test_who_leaves_while_waiting_leaves_nothing() -> None:
    """A departure ends the wait for an engine as any other."""
    async with LiveGateway({"fast": []}, is_supervised=True) as gateway:
        async with connected(gateway.port) as (_, writer):
            writer.write(post(b'{"model": "fast", "messages": [{"role": "user", "content": "hi"}]}'))
            await gateway.until(lambda: gateway.service.num_running)
        await gateway.idle()
        assert gateway.books.statuses == [499]


async def test_a_request_whose_engine_crashed_is_answered_by_its_successor() -> None:
    """A connection that breaks before the first byte may be a crash: the request waits for the engine's next life."""
    async with (
        MockUpstream(Script(fault=Fault.RESET)) as crashing,
        MockUpstream() as successor,
        LiveGateway({"fast": [crashing]}, is_supervised=True) as gateway,
    ):
        waiting = asyncio.create_task(gateway.chat())
        await crashing.until(lambda: crashing.requests)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        gateway.fleet.replica_down("fast", crashing.url)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        gateway.add_replica("fast", successor.url)
        assert (await waiting).status_code == 200
        assert gateway.books.outcomes == [Outcome.FAILURE, Outcome.SUCCESS]


async def test_an_engine_that_answers_with_an_error_is_not_waited_for() -> None:
    """A 500 of an engine that runs is told at once: no restart is going to change it."""
    async with (
        MockUpstream(Script(status=500)) as upstream,
        LiveGateway({"fast": [upstream]}, is_supervised=True) as gateway,
    ):
        for _ in range(8):  # with the breaker closed and open
            began = time.monotonic()
            assert (await gateway.chat()).status_code == 502
            assert time.monotonic() - began < 1.5


async def test_an_open_breaker_of_an_engine_that_runs_is_no_restart() -> None:
    """With every breaker of the tier open the request is tried, and not held for a restart that nobody planned."""
    async with (
        MockUpstream(Script(status=500)) as upstream,
        LiveGateway({"fast": [upstream]}, is_supervised=True) as gateway,
    ):
        for _ in range(6):
            await gateway.chat()
        assert not gateway.fleet["fast"].pool.is_available
        upstream.script = Script()
        began = time.monotonic()
        assert (await gateway.chat()).status_code == 200
        assert time.monotonic() - began < 1.0


async def test_those_in_line_for_an_engine_that_crashes_wait_for_the_next() -> None:
    """Requests in the queue were sent nowhere: a crash costs them neither an error nor a retry of the budget."""
    nothing = RetryBudget(share=0.0, floor_per_s=0.0, max_tokens=0.0)
    stalled = Script(fault=Fault.STALL, fault_at=Point.HEADERS)
    async with (
        MockUpstream(stalled) as crashing,
        MockUpstream() as successor,
        LiveGateway(
            {"fast": [crashing]}, is_supervised=True, max_in_flight=1, retry_budget=nothing
        ) as gateway,
    ):
        first = asyncio.create_task(gateway.chat())
        await crashing.until(lambda: crashing.requests)
        others = [asyncio.create_task(gateway.chat()) for _ in range(3)]
        await gateway.until(lambda: gateway.gauge("tierwise_queue_length") == 3)
        await crashing.stop(Fault.RESET)
        gateway.fleet.replica_down("fast", crashing.url)
        gateway.add_replica("fast", successor.url)
        assert [(await other).status_code for other in others] == [200] * 3
        assert (await first).status_code == 502, "it was sent, and there is no budget to send it again"
        await gateway.idle()


async def test_a_restart_elsewhere_keeps_nobody_waiting() -> None:
    """A request that names a server of somebody else's is not held because an engine of ours is starting."""
    tiers = {
        "fast": {**external([]), "price": PRICES["fast"]},
        "full": {**CHILD, "price": PRICES["full"]},
    }
    async with LiveGateway({"fast": [], "full": []}, settings={"tiers": tiers}) as gateway:
        assert gateway.fleet.is_restarting(["full"], frozenset())
        began = time.monotonic()
        assert (await gateway.chat({"model": "fast"})).status_code == 503
        assert time.monotonic() - began < 1.0
