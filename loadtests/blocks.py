"""The plan of a comparison: short blocks of load, alternating between two lanes, fixed beforehand. Pure.

Both lanes of a pair replay the same arrivals with the same mix, one right after the other in random order, so
that slow noise of the machine (another process, a hot core) falls on both. Between blocks the load rests long
enough for streams to end, so that a lane is measured with its own work alone: the direct lane does not pay
for the gateway's CPU.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from loadtests.arrivals import ARRIVALS


class Lane(StrEnum):
    """Where a block's requests go."""

    DIRECT = "direct"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """How much load, of what kind."""

    rate: float
    """Requests per second while a block runs."""
    duration_s: float
    """Seconds of load on each lane, warm-up and rests not counted."""
    block_s: float
    rest_s: float
    """Between two blocks."""
    warmup_s: float
    """Seconds of load on each lane before those that count."""
    arrivals: str
    """A name of `loadtests.arrivals.ARRIVALS`."""
    stream_share: float
    num_prompts: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request of a block."""

    offset_s: float
    """After the block's start."""
    is_streaming: bool
    prompt: int
    """Index of its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of load on one lane."""

    lane: Lane
    pair: int | None
    """The two blocks of one number are compared; None for the warm-up."""
    starts_s: float
    """After the start of the run."""
    ends_s: float
    """When the last of its requests may be sent."""
    requests: tuple[PlannedRequest, ...]


def plan_blocks(shape: LoadShape) -> tuple[Block, ...]:
    """The whole run, in order of time. The same shape gives the same plan."""
    rng = random.Random(shape.seed)
    num_pairs = max(1, round(shape.duration_s / shape.block_s))
    lengths: list[tuple[int | None, float]] = [(None, shape.warmup_s)] if shape.warmup_s > 0 else []
    lengths += [(pair, shape.duration_s / num_pairs) for pair in range(num_pairs)]
    blocks: list[Block] = []
    starts_s = 0.0
    for pair, length_s in lengths:
        requests = _plan_requests(shape, length_s, rng)
        for lane in rng.sample(tuple(Lane), k=2):
            ends_s = starts_s + length_s
            blocks.append(Block(lane=lane, pair=pair, starts_s=starts_s, ends_s=ends_s, requests=requests))
            starts_s = ends_s + shape.rest_s
    return tuple(blocks)


def _plan_requests(shape: LoadShape, length_s: float, rng: random.Random) -> tuple[PlannedRequest, ...]:
    offsets = ARRIVALS[shape.arrivals](shape.rate, length_s, rng)
    return tuple(
        PlannedRequest(
            offset_s=offset_s,
            is_streaming=rng.random() < shape.stream_share,
            prompt=rng.randrange(shape.num_prompts),
        )
        for offset_s in offsets
    )
