"""The plan of a comparison by its laws."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from loadtests.blocks import Block, Lane, LoadShape, plan_blocks

SHAPE = LoadShape(
    rate=100.0,
    duration_s=8.0,
    block_s=1.0,
    rest_s=0.35,
    warmup_s=2.0,
    arrivals="poisson",
    stream_share=0.5,
    num_prompts=7,
    seed=0,
)


def of_lane(plan: tuple[Block, ...], lane: Lane) -> list[Block]:
    return [block for block in plan if block.lane is lane and block.pair is not None]


def test_both_lanes_replay_the_same_load() -> None:
    """Within a pair the requests are equal, so that only the way differs."""
    plan = plan_blocks(SHAPE)
    direct, gateway = of_lane(plan, Lane.DIRECT), of_lane(plan, Lane.GATEWAY)
    assert [block.pair for block in direct] == list(range(8))
    assert [block.requests for block in direct] == [block.requests for block in gateway]


def test_blocks_rest_between_and_never_overlap() -> None:
    """The next block starts when the last one's streams have had time to end."""
    for before, after in pairwise(plan_blocks(SHAPE)):
        assert after.starts_s == pytest.approx(before.ends_s + SHAPE.rest_s)


def test_each_lane_is_loaded_for_the_duration() -> None:
    """8 s at 100 a second are about 800 requests a lane, half of them streams, and the warm-up is not among them."""
    blocks = of_lane(plan_blocks(SHAPE), Lane.GATEWAY)
    requests = [request for block in blocks for request in block.requests]
    assert sum(block.ends_s - block.starts_s for block in blocks) == pytest.approx(8.0)
    assert 700 < len(requests) < 900
    assert 0.4 < sum(request.is_streaming for request in requests) / len(requests) < 0.6
    assert {request.prompt for request in requests} == set(range(7))


def test_neither_lane_always_goes_first() -> None:
    """Otherwise what the first block leaves behind would always fall on the same lane."""
    plan = [block for block in plan_blocks(SHAPE) if block.pair is not None]
    assert {block.lane for block in plan[::2]} == set(Lane)


def test_the_warmup_comes_first_on_both_lanes() -> None:
    """And is left out where none is wanted."""
    assert [block.pair for block in plan_blocks(SHAPE)[:3]] == [None, None, 0]
    assert plan_blocks(dataclasses.replace(SHAPE, warmup_s=0.0))[0].pair == 0


def test_a_short_run_is_one_pair() -> None:
    """A duration below a block's still loads both lanes, for just that long."""
    plan = plan_blocks(dataclasses.replace(SHAPE, duration_s=0.3, warmup_s=0.0))
    assert [block.ends_s - block.starts_s for block in plan] == pytest.approx([0.3, 0.3])


def test_the_seed_decides_the_plan() -> None:
    """Same shape, same plan; another seed, another one."""
    assert plan_blocks(SHAPE) == plan_blocks(SHAPE)
    assert plan_blocks(SHAPE) != plan_blocks(dataclasses.replace(SHAPE, seed=1))
