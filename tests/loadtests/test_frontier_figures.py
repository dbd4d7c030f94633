"""A frontier's figures: by hand, for a router that knows something, and for a lot, which must not be called better."""

from __future__ import annotations

import numpy as np
import pytest

from loadtests.frontier_figures import Columns, Frontier, frontier
from tests.loadtests.frontier_columns import (
    COST_FAST,
    COST_FULL,
    NUM,
    TARGETS,
    Router,
    Tiers,
    by_lot,
    by_need,
)


def judged(router: Router, seed: int, *, num_draws: int = 400) -> Frontier:
    generator = np.random.default_rng(seed)
    tiers = Tiers(generator)
    routed = {target: tiers.way(router(generator, target, tiers)) for target in TARGETS}
    fast, full = tiers.ends()
    return frontier(fast, full, routed, groups=np.arange(NUM), concurrency=4, seed=seed, num_draws=num_draws)


def test_a_router_that_knows_lies_above_the_line() -> None:
    """At equal share and at equal cost, on average and at the middle budgets."""
    found = judged(by_need, 1)
    assert found.is_above(found.mean_gain.at_share)
    assert found.is_above(found.mean_gain.at_cost)
    assert all(found.is_above(found.gains[target].at_share) for target in (0.3, 0.4, 0.5, 0.6))


def test_a_lot_is_not_called_better() -> None:
    """Of 40 lots about one lies above by chance, as 95 % intervals promise; five would come once in 250 times."""
    lots = [judged(by_lot, seed, num_draws=200) for seed in range(40)]
    assert sum(lot.is_above(lot.mean_gain.at_share) for lot in lots) < 5
    assert sum(lot.is_above(lot.mean_gain.at_cost) for lot in lots) < 5
    assert abs(np.mean([lot.mean_gain.at_share.value for lot in lots])) < 0.003


def test_a_router_that_is_wrong_lies_below() -> None:
    """What is sent up where full is not needed loses, and the interval says so."""
    found = judged(lambda generator, target, tiers: ~by_need(generator, 1 - target, tiers), 2)
    assert found.mean_gain.at_share.high < 0


def four(is_right: list[float], is_full: list[float], cost: list[float]) -> Columns:
    return Columns(
        is_right=np.array(is_right),
        is_full=np.array(is_full),
        cost=np.array(cost),
        ttft_s=np.array([0.1, 0.2, 0.3, np.nan]),
        e2e_s=np.array([0.5, 0.5, 0.5, 0.5]),
        num_output_tokens=np.array([2.0, 2.0, 2.0, 4.0]),
        is_good=np.array(is_right),
    )


def test_by_hand() -> None:
    """Four prompts: the line is at 1/4 + 1/4 · 2/4 at a quarter of the requests, and at 0.45 of the way by cost."""
    fast = four([1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1])
    full = four([1, 1, 1, 0], [1, 1, 1, 1], [6, 6, 6, 6])
    routed = four([1, 1, 0, 0], [0, 1, 0, 0], [1, 10, 1, 1])
    found = frontier(fast, full, {0.25: routed}, groups=np.arange(4), concurrency=2, seed=0, num_draws=50)
    gain = found.gains[0.25]
    assert gain.at_share.value == pytest.approx(0.5 - (0.25 + 0.25 * 0.5))
    assert gain.at_cost.value == pytest.approx(0.5 - (0.25 + (3.25 - 1) / 5 * 0.5))
    assert found.mean_gain.at_share.value == gain.at_share.value
    assert found.full_over_fast.value == pytest.approx(0.5)
    point = found.routed[0.25]
    assert (point.score.value, point.full_share.value, point.cost.value) == (0.5, 0.25, 3.25)
    assert point.ttft_p50_s.value == pytest.approx(0.2)
    assert point.ttft_p95_s.value == pytest.approx(np.quantile([0.1, 0.2, 0.3], 0.95))
    assert point.tokens_per_s.value == pytest.approx(2 * 10 / 2.0)
    assert point.goodput_per_s.value == pytest.approx(2 * 2 / 2.0)


def test_beyond_the_dear_end_the_line_ends() -> None:
    """What costs more than always full is compared with always full."""
    fast = four([0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1])
    full = four([1, 1, 1, 0], [1, 1, 1, 1], [2, 2, 2, 2])
    routed = four([1, 1, 1, 1], [1, 1, 1, 0], [9, 9, 9, 9])
    found = frontier(fast, full, {0.9: routed}, groups=np.arange(4), concurrency=1, seed=0, num_draws=50)
    assert found.gains[0.9].at_cost.value == pytest.approx(1 - 0.75)


def test_ends_that_cost_the_same_leave_no_line() -> None:
    """Then there is no figure at equal cost, and nothing is called better by it."""
    fast, full = (four([0, 0, 0, share], [share] * 4, [1, 1, 1, 1]) for share in (0, 1))
    found = frontier(fast, full, {0.5: full}, groups=np.arange(4), concurrency=1, seed=0, num_draws=50)
    assert np.isnan(found.mean_gain.at_cost.value)
    assert not found.is_above(found.mean_gain.at_cost)


def test_of_few_prompts_nothing_is_called_better() -> None:
    """However clear they look: sixty, all of which were routed rightly."""
    tiers = Tiers(np.random.default_rng(0), num=60)
    fast, full = tiers.ends()
    routed = tiers.way(tiers.full > tiers.fast)
    found = frontier(fast, full, {0.2: routed}, groups=np.arange(60), concurrency=1, seed=0, num_draws=200)
    assert found.mean_gain.at_share.low > 0
    assert not found.is_above(found.mean_gain.at_share)


def test_near_duplicates_widen_the_interval() -> None:
    """Prompts in tens that are alike are a tenth of the evidence."""
    generator = np.random.default_rng(0)
    tiers = Tiers(generator, num=40)
    tiers.fast, tiers.full = np.repeat(tiers.fast, 10), np.repeat(tiers.full, 10)
    tiers.kind = np.repeat(tiers.kind, 10)
    fast, full = tiers.ends()
    widths = []
    for groups in (np.arange(400), np.repeat(np.arange(40), 10)):
        found = frontier(fast, full, {0.5: full}, groups=groups, concurrency=1, seed=0, num_draws=400)
        widths.append(found.fast.score.high - found.fast.score.low)
    assert widths[1] > 2 * widths[0]


def test_costs_are_those_of_the_arms() -> None:
    """The invented tiers, as a check of themselves."""
    found = judged(by_lot, 0, num_draws=50)
    assert (found.fast.cost.value, found.full.cost.value) == (COST_FAST, COST_FULL)
    assert found.fast.tokens_per_s.value == pytest.approx(4 * 4 / 0.1)
