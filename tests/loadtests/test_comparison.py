"""An open-loop load sends on schedule, whatever becomes of what it sent."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from loadtests.alarms import Alarms
from loadtests.blocks import Block, Lane, PlannedRequest
from loadtests.comparison import LaneClient, run_blocks
from loadtests.prompts import render_prompts
from loadtests.stream_client import ChatClient
from tests.fakes import Fault, MockUpstream, Point, Script

PROMPTS = render_prompts(num_prompts=2, num_chars=40, seed=0)


def make_block(lane: Lane, *, starts_s: float, num_requests: int, gap_s: float) -> Block:
    requests = tuple(
        PlannedRequest(offset_s=index * gap_s, is_streaming=index % 2 == 0, prompt=index % 2)
        for index in range(num_requests)
    )
    return Block(
        lane=lane, pair=0, starts_s=starts_s, ends_s=starts_s + num_requests * gap_s, requests=requests
    )


@asynccontextmanager
async def two_lanes(
    *upstreams: MockUpstream, timeout_s: float = 5.0
) -> AsyncIterator[tuple[dict[Lane, LaneClient], Alarms]]:
    alarms = Alarms(asyncio.get_running_loop())
    clients = [
        ChatClient(upstream.url, alarms=alarms, max_connections=64, timeout_s=timeout_s)
        for upstream in upstreams
    ]
    yield (
        {
            lane: LaneClient(client, prompts=PROMPTS, model=lane.value, max_tokens=5)
            for lane, client in zip(Lane, clients, strict=True)
        },
        alarms,
    )
    for client in clients:
        await client.close()
    alarms.close()


async def test_each_lane_gets_its_own_requests_when_due() -> None:
    """Bodies carry the lane's model, the planned prompt and whether to stream; the second block comes second."""
    async with (
        MockUpstream() as direct,
        MockUpstream() as gateway,
        two_lanes(direct, gateway) as (lanes, alarms),
    ):
        blocks = [
            make_block(Lane.DIRECT, starts_s=7.0, num_requests=4, gap_s=0.01),
            make_block(Lane.GATEWAY, starts_s=7.1, num_requests=6, gap_s=0.01),
        ]
        result = await run_blocks(blocks, lanes=lanes, alarms=alarms)
    assert [len(block.timelines) for block in result.blocks] == [4, 6]
    assert all(timeline.error is None for block in result.blocks for timeline in block.timelines)
    assert [seen.json["model"] for seen in direct.requests] == ["direct"] * 4
    bodies = [seen.json for seen in sorted(gateway.requests, key=lambda seen: seen.received_at)]
    assert sorted(body.get("stream", False) for body in bodies) == [False] * 3 + [True] * 3
    assert {body["messages"][0]["content"] for body in bodies} == set(PROMPTS)
    assert min(seen.received_at for seen in gateway.requests) - direct.requests[0].received_at > 0.09
    assert len(result.dispatch_lateness_s) == 10
    assert all(lateness_s >= 0 for lateness_s in result.dispatch_lateness_s)
    assert gc.isenabled()


async def test_a_server_that_stalls_does_not_slow_the_load_down() -> None:
    """The gateway's lane never answers: all twenty requests are sent on schedule all the same, and each counts in full.

    A closed loop would have sent the first one and waited.
    """
    async with MockUpstream() as direct, MockUpstream() as gateway:
        gateway.script = Script(fault=Fault.STALL, fault_at=Point.HEADERS)
        async with two_lanes(direct, gateway, timeout_s=1.0) as (lanes, alarms):
            block = make_block(Lane.GATEWAY, starts_s=0.0, num_requests=20, gap_s=0.01)
            result = await run_blocks([block], lanes=lanes, alarms=alarms)
    arrived_s = sorted(seen.received_at for seen in gateway.requests)
    assert len(arrived_s) == 20
    assert arrived_s[-1] - arrived_s[0] < 0.6
    (stalled,) = result.blocks
    assert [timeline.error for timeline in stalled.timelines] == ["no complete answer within 1 s"] * 20
    assert all(timeline.e2e_s >= 1.0 for timeline in stalled.timelines)


async def test_no_blocks_are_no_work() -> None:
    """A run without a warm-up."""
    async with (
        MockUpstream() as direct,
        MockUpstream() as gateway,
        two_lanes(direct, gateway) as (lanes, alarms),
    ):
        assert (await run_blocks([], lanes=lanes, alarms=alarms)).blocks == ()


@pytest.mark.parametrize("num_chars", [1, 40, 2000])
def test_prompts_have_the_length_asked_for(num_chars: int) -> None:
    """Exactly, in characters, and they differ from the start so that no prefix cache helps."""
    prompts = render_prompts(num_prompts=6, num_chars=num_chars, seed=0)
    assert [len(prompt) for prompt in prompts] == [num_chars] * 6
    if num_chars > 10:
        assert len({prompt[:10] for prompt in prompts}) == 6
    assert orjson.loads(orjson.dumps(prompts)) == list(prompts)
