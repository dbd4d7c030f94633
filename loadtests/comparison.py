"""Runs a plan of blocks on two lanes: sends every request at its moment, whatever became of those before."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from loadtests.alarms import Alarms
from loadtests.blocks import Block, Lane, PlannedRequest
from loadtests.prompts import chat_body
from loadtests.stream_client import ChatClient
from loadtests.timeline import Timeline

LEAD_S = 0.05
"""From the call to the first request's earliest moment: time to set all alarms."""


class LaneClient:
    """One lane: a client and its requests, rendered beforehand."""

    def __init__(self, client: ChatClient, *, prompts: Sequence[str], model: str, max_tokens: int) -> None:
        self._client = client
        self._requests = {
            (index, is_streaming): client.request(
                chat_body(prompt, model=model, max_tokens=max_tokens, is_streaming=is_streaming)
            )
            for index, prompt in enumerate(prompts)
            for is_streaming in (False, True)
        }

    def send(
        self, planned: PlannedRequest, *, scheduled_s: float, on_end: Callable[[Timeline], None]
    ) -> None:
        """Send one planned request now."""
        self._client.send(
            self._requests[planned.prompt, planned.is_streaming],
            scheduled_s=scheduled_s,
            is_streaming=planned.is_streaming,
            on_end=on_end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockResult:
    """What became of a block's requests, in the order in which they ended."""

    block: Block
    timelines: tuple[Timeline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A finished run."""

    blocks: tuple[BlockResult, ...]
    dispatch_lateness_s: tuple[float, ...]
    """For each request, how long after its moment the generator got round to it. Counted in every latency."""
    generator_cpu_s: float


async def run_blocks(
    blocks: Sequence[Block], *, lanes: Mapping[Lane, LaneClient], alarms: Alarms
) -> LoadResult:
    """Run the blocks at their distances in time and return once every request has ended."""
    run = _Run(lanes, alarms, num_requests=sum(len(block.requests) for block in blocks))
    with _no_collections():
        cpu_began_s = time.process_time()
        origin_s = time.monotonic() + LEAD_S - min((block.starts_s for block in blocks), default=0.0)
        timelines = [run.schedule(block, origin_s + block.starts_s) for block in blocks]
        await run.ended
    return LoadResult(
        blocks=tuple(
            BlockResult(block=block, timelines=tuple(ended))
            for block, ended in zip(blocks, timelines, strict=True)
        ),
        dispatch_lateness_s=tuple(run.lateness_s),
        generator_cpu_s=time.process_time() - cpu_began_s,
    )


class _Run:
    """Counts requests out and back in."""

    def __init__(self, lanes: Mapping[Lane, LaneClient], alarms: Alarms, *, num_requests: int) -> None:
        self._lanes = lanes
        self._alarms = alarms
        self._num_left = num_requests
        self.lateness_s: list[float] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not num_requests:
            self.ended.set_result(None)

    def schedule(self, block: Block, starts_s: float) -> list[Timeline]:
        """Set an alarm for every request; the list fills as they end."""
        timelines: list[Timeline] = []
        for planned in block.requests:
            self._schedule_one(block.lane, planned, starts_s + planned.offset_s, timelines)
        return timelines

    def _schedule_one(
        self, lane: Lane, planned: PlannedRequest, scheduled_s: float, timelines: list[Timeline]
    ) -> None:
        def on_end(timeline: Timeline) -> None:
            timelines.append(timeline)
            self._num_left -= 1
            if not self._num_left and not self.ended.done():
                self.ended.set_result(None)

        def send() -> None:
            self.lateness_s.append(time.monotonic() - scheduled_s)
            self._lanes[lane].send(planned, scheduled_s=scheduled_s, on_end=on_end)

        self._alarms.call_at(scheduled_s, send)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the collector still: a full collection over all timelines would make every request late at once."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
