"""Whether a router is worth having: what it brings beside the line between its ends. Pure: the seed is a parameter.

The *line* is what a lot would bring that sends a share of the requests to the full tier: it joins always-fast and
always-full. A routed way is compared with the line where the line takes the same share, and where it costs the same.

All ways answered the same prompts, so that every figure is computed anew from the same draws of prompts, ends and share
included (the paired bootstrap of `router.resampling`; near-duplicates are drawn together). The intervals say how far a
figure would move on other prompts of the kind; they do not know how busy the machine was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.resampling import Estimate, Figure, Floats, Resamples

NUM_DRAWS: Final = 2000
MIN_GROUPS: Final = 100
"""Of fewer prompts unlike each other nothing is called above the line: intervals of few are too narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """One way's answers, (prompts,) each, in an order that all ways share. Without an answer: wrong, and free."""

    is_right: Floats
    is_full: Floats
    """1 where the full tier answered."""
    cost: Floats
    ttft_s: Floats
    """NaN where there was no output."""
    e2e_s: Floats
    num_output_tokens: Floats
    is_good: Floats
    """1 where the answer is right and came within the objectives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One way, measured."""

    name: str
    score: Estimate
    """Share of right answers."""
    full_share: Estimate
    cost: Estimate
    """Of a request."""
    ttft_p50_s: Estimate
    ttft_p95_s: Estimate
    tokens_per_s: Estimate
    goodput_per_s: Estimate
    """Right answers within the objectives, a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How far a routed score lies above the line, in shares of all requests."""

    at_share: Estimate
    """Where the line sends as many requests to the full tier."""
    at_cost: Estimate
    """Where the line costs as much; beyond an end, the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The ends, the routed ways by target, and what routing gains."""

    fast: Point
    full: Point
    routed: Mapping[float, Point]
    gains: Mapping[float, Gain]
    mean_gain: Gain
    """Over all targets: one figure each, so that nothing is chosen after the fact."""
    full_over_fast: Estimate
    """Score of always-full less that of always-fast: without a difference there is nothing to route for."""
    num_prompts: int
    num_groups: int

    def is_above(self, gain: Estimate) -> bool:
        """Whether the whole interval is above the line. Of nine intervals without a gain, one may be so by chance."""
        return self.num_groups >= MIN_GROUPS and gain.low > 0


def frontier(
    fast: Columns,
    full: Columns,
    routed: Mapping[float, Columns],
    *,
    groups: NDArray[np.int64],
    concurrency: int,
    seed: int,
    num_draws: int = NUM_DRAWS,
) -> Frontier:
    """Judge the routed ways, by target, beside the ends.

    Args:
        groups: (prompts,), near-duplicates with one number.
        concurrency: how many clients asked, each its next as soon as it had its last answer.
        seed: of the draws.
    """
    resamples = Resamples.draw(groups, np.random.default_rng(seed), num_draws=num_draws)
    ends = (fast, full)
    gains = {
        target: Gain(
            at_share=resamples.estimate(_gain(way, ends, is_cost=False)),
            at_cost=resamples.estimate(_gain(way, ends, is_cost=True)),
        )
        for target, way in routed.items()
    }
    ways = tuple(routed.values())
    return Frontier(
        fast=_point("always fast", fast, resamples, concurrency),
        full=_point("always full", full, resamples, concurrency),
        routed={
            target: _point(f"routed, {target:g}", way, resamples, concurrency)
            for target, way in routed.items()
        },
        gains=gains,
        mean_gain=Gain(
            at_share=resamples.estimate(_mean_gain(ways, ends, is_cost=False)),
            at_cost=resamples.estimate(_mean_gain(ways, ends, is_cost=True)),
        ),
        full_over_fast=resamples.estimate(
            lambda counts: _mean(counts, full.is_right) - _mean(counts, fast.is_right)
        ),
        num_prompts=len(groups),
        num_groups=len(np.unique(groups)),
    )


def _mean(counts: Floats, values: Floats) -> Floats:
    means: Floats = counts @ values / counts.sum(axis=1)
    return means


def _gain(way: Columns, ends: tuple[Columns, Columns], *, is_cost: bool) -> Figure:
    """Score above the line at an equal share, or at an equal cost."""

    def figure(counts: Floats) -> Floats:
        taken, *taken_by_ends = (_mean(counts, one.cost if is_cost else one.is_full) for one in (way, *ends))
        low, high = (_mean(counts, end.is_right) for end in ends)
        least, most = taken_by_ends
        with np.errstate(divide="ignore", invalid="ignore"):
            along = np.clip((taken - least) / (most - least), 0.0, 1.0)
        # Ends that take the same leave no line: NaN, which no interval counts.
        return _mean(counts, way.is_right) - (low + along * (high - low))

    return figure


def _mean_gain(ways: Sequence[Columns], ends: tuple[Columns, Columns], *, is_cost: bool) -> Figure:
    figures = [_gain(way, ends, is_cost=is_cost) for way in ways]

    def figure(counts: Floats) -> Floats:
        mean: Floats = np.mean([each(counts) for each in figures], axis=0)
        return mean

    return figure


def _point(name: str, way: Columns, resamples: Resamples, concurrency: int) -> Point:
    return Point(
        name=name,
        score=resamples.estimate(lambda counts: _mean(counts, way.is_right)),
        full_share=resamples.estimate(lambda counts: _mean(counts, way.is_full)),
        cost=resamples.estimate(lambda counts: _mean(counts, way.cost)),
        ttft_p50_s=resamples.estimate(_quantile(way.ttft_s, 0.5)),
        ttft_p95_s=resamples.estimate(_quantile(way.ttft_s, 0.95)),
        tokens_per_s=resamples.estimate(_rate(way.num_output_tokens, way.e2e_s, concurrency)),
        goodput_per_s=resamples.estimate(_rate(way.is_good, way.e2e_s, concurrency)),
    )


def _rate(amounts: Floats, e2e_s: Floats, concurrency: int) -> Figure:
    """Amounts a second of clients who are never idle: what one gets in the time it waits, times their number."""
    return lambda counts: concurrency * (counts @ amounts) / (counts @ e2e_s)


def _quantile(values: Floats, q: float) -> Figure:
    """The q-quantile (type 7, as in `loadtests.quantiles`) of the values that are numbers; NaN of none."""
    order = np.argsort(values, kind="stable")
    order = order[np.isfinite(values[order])]

    def figure(counts: Floats) -> Floats:
        num_up_to = np.cumsum(counts[:, order], axis=1)  # (draws, values)
        num = num_up_to[:, -1] if len(order) else np.zeros(len(counts))
        position = np.maximum(num - 1, 0) * q
        below = np.floor(position)
        above = np.minimum(below + 1, np.maximum(num - 1, 0))
        low, high = (_at(values[order], num_up_to, rank) for rank in (below, above))
        return np.where(num > 0, low + (position - below) * (high - low), np.nan)

    return figure


def _at(ordered: Floats, num_up_to: Floats, rank: Floats) -> Floats:
    """The value at a rank from 0 in each draw; NaN where a draw has none."""
    if not len(ordered):
        return np.full(len(rank), np.nan)
    places = (num_up_to <= rank[:, None]).sum(axis=1)
    return ordered[np.minimum(places, len(ordered) - 1)]
