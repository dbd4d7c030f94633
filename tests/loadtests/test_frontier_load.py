"""One way's requests: some at a time, each at temperature 0 as a stream, judged by what was said."""

from __future__ import annotations

import asyncio

import pytest

from loadtests.frontier_load import LedgerGapError, Load, answers_of, ask
from loadtests.mock_answers import MODEL
from router.prompts import make
from tests.fakes import MockUpstream, Script

ITEMS = [make("sums", seed=0, index=index, level=0) for index in range(5)]


async def test_every_item_is_asked_once() -> None:
    """In the order of the items, whatever order they end in; as many connections as clients."""
    ended: list[None] = []
    async with MockUpstream() as upstream:
        upstream.script = Script(
            tokens=("It is ", "7", "."), headers={"x-request-id": "r", "x-tierwise-tier": "fast"}
        )
        load = Load(concurrency=2, max_tokens=9)
        async with asyncio.timeout(10):
            timelines = await ask(
                upstream.url, ITEMS, model=MODEL, load=load, on_answer=lambda: ended.append(None)
            )
    assert len(timelines) == len(ended) == len(ITEMS)
    assert {timeline.text for timeline in timelines} == {"It is 7."}
    bodies = [request.json for request in upstream.requests]
    assert sorted(body["messages"][0]["content"] for body in bodies) == sorted(item.prompt for item in ITEMS)
    assert {(body["temperature"], body["max_tokens"], body["stream"]) for body in bodies} == {(0, 9, True)}

    decision = {"reason": "best_value", "artifact_version": "router-1", "cost": 2.5}
    answers = answers_of(ITEMS, timelines, {"r": decision})
    assert [answer.is_right for answer in answers] == [item.passes("It is 7.") for item in ITEMS]
    with pytest.raises(LedgerGapError, match="lacks 5 of 5"):
        answers_of(ITEMS, timelines, {})
    assert {(answer.cost, answer.router, answer.tier) for answer in answers} == {(2.5, "router-1", "fast")}


async def test_a_failed_request_is_wrong_and_free() -> None:
    """It has an error, no tier, no cost; nothing stops."""
    async with MockUpstream() as upstream:
        upstream.script = Script(status=503, error={"message": "busy"})
        load = Load(concurrency=1, max_tokens=9)
        (timeline,) = await ask(upstream.url, ITEMS[:1], model=MODEL, load=load, on_answer=lambda: None)
    (answer,) = answers_of(ITEMS[:1], [timeline], {})
    assert answer.error is not None
    assert (answer.is_right, answer.tier, answer.cost, answer.ttft_s) == (False, None, 0.0, None)


async def test_a_run_that_is_stopped_leaves_quietly() -> None:
    """Ctrl-C amid answers: requests are broken off, and no callback meets a future that is gone."""
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with MockUpstream() as upstream:
        upstream.script = Script(ttft_s=30.0)
        load = Load(concurrency=2, max_tokens=9)
        asking = asyncio.create_task(ask(upstream.url, ITEMS, model=MODEL, load=load, on_answer=lambda: None))
        await upstream.until(lambda: len(upstream.requests) == 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await asyncio.sleep(0)
    assert not faults
