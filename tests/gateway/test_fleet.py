"""The fleet as the router sees it: arms with what engines offer, which are up, and which may come up again."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from router.arms import Effort
from serving.engines.base import Endpoint, EngineCapabilities
from serving.gateway.fleet import Fleet
from serving.ledger.records import Outcome
from serving.settings import Settings
from serving.upstream.pool import Pool

EXTERNAL = {"type": "external", "urls": ["http://127.0.0.1:1"]}
CHILD = {"type": "llamacpp"}
CHEAP = {"input": 0.2, "output": 0.8}
DEAR = {"input": 1.0, "output": 4.0}
A, B = Endpoint(url="http://a"), Endpoint(url="http://b")


def settings(**tree: Any) -> Settings:
    tiers = {
        "full": {"engine": CHILD, "model": "full@stable", "price": DEAR},
        "fast": {"engine": EXTERNAL, "price": CHEAP},
    }
    return Settings.model_validate({"tiers": tiers, **tree})


def fleet_of(tree: Settings) -> Fleet:
    def pool(tier: str) -> Pool:
        return Pool(tier, max_queue=1, queue_timeout_s=1.0, clock=lambda: 0.0, rng=random.Random(0))

    return Fleet(tree, [pool(tier) for tier in tree.tiers])


def engine(model_id: str = "model", **offers: Any) -> EngineCapabilities:
    return EngineCapabilities(
        model_id=model_id, context_tokens=4096, num_slots=2, endpoints=frozenset({"chat"}), **offers
    )


async def test_arms_learn_from_engines_as_they_come_up() -> None:
    """Before an engine is up its arm is down and its offer assumed; afterwards it is what the engine says."""
    fleet = fleet_of(settings())
    assert [arm.is_available for arm in fleet.arms()] == [False, False]
    assert not fleet.has_started
    fleet.replica_up("full", A, engine("base-135m", tools=False))
    full, fast = fleet.arms()
    assert (full.is_available, full.capabilities.context_tokens, full.capabilities.tools) == (
        True,
        4096,
        False,
    )
    assert full.capabilities.endpoints == {"chat", "responses"}
    assert not fast.is_available
    assert fleet.is_available
    assert not fleet.has_started
    assert fleet.model_ids == {"base-135m": "full"}
    fleet.replica_up("fast", B, engine("small"))
    assert fleet.has_started


async def test_strength_goes_by_price() -> None:
    """The dearer tier is the stronger; of equal prices the one that is configured first."""
    assert {arm.name: arm.strength for arm in fleet_of(settings()).arms()} == {"full": 1, "fast": 0}
    equal = settings(
        tiers={name: {"engine": EXTERNAL, "price": CHEAP} for name in ("first", "second", "third")}
    )
    assert {arm.name: arm.strength for arm in fleet_of(equal).arms()} == {"first": 2, "second": 1, "third": 0}


async def test_an_arm_s_effort_is_what_it_merges() -> None:
    """`reasoning_effort` in an arm's request is its effort; the rest is merged as it stands."""
    arms = [{"name": "think", "tier": "full", "request": {"reasoning_effort": "high", "top_k": 1}}]
    fleet = fleet_of(settings(arms=arms))
    (arm,) = fleet.arms()
    assert (arm.effort, arm.request) == (Effort.HIGH, {"reasoning_effort": "high", "top_k": 1})
    assert fleet.arms_by_name["think"].request is arm.request


async def test_to_one_request_a_tier_that_failed_it_is_down() -> None:
    """A replica that failed a request counts for others; with a second replica the tier stays up for this one too."""
    fleet = fleet_of(settings())
    fleet.replica_up("full", A, engine())
    failed = frozenset({A.url})
    assert fleet.arms()[0].is_available
    assert not fleet.arms(failed)[0].is_available
    assert not fleet.arms(failed, even_if_sick=True)[0].is_available
    fleet.replica_up("full", B, engine())
    assert fleet.arms(failed)[0].is_available


async def test_a_sick_tier_counts_only_in_panic() -> None:
    """An open breaker takes a tier from the router until there is nothing else."""
    fleet = fleet_of(settings())
    fleet.replica_up("full", A, engine())
    for _ in range(5):
        async with fleet["full"].pool.lease() as lease:
            lease.outcome = Outcome.FAILURE
    assert not fleet.arms()[0].is_available
    assert fleet.arms(even_if_sick=True)[0].is_available
    assert not fleet.is_available


async def test_only_an_engine_of_ours_that_is_gone_is_waited_for() -> None:
    """A child whose process ended comes back; one that merely failed, or a server of somebody else, does not."""
    fleet = fleet_of(settings())
    nothing: frozenset[str] = frozenset()
    assert fleet.is_restarting(["full"], nothing), "it has not come up yet"
    assert not fleet.is_restarting(["fast"], nothing)
    assert fleet.is_restarting(["fast", "full"], nothing)
    fleet.replica_up("full", A, engine())
    assert not fleet.is_restarting(["full"], nothing), "it failed, and runs"
    assert fleet.is_restarting(["full"], frozenset({A.url})), "its connection broke: it may be dead already"
    for _ in range(5):
        async with fleet["full"].pool.lease() as lease:
            lease.outcome = Outcome.FAILURE
    assert not fleet.is_restarting(["full"], nothing), "a breaker is no crash"
    fleet.replica_down("full", A.url)
    assert fleet.is_restarting(["full"], nothing)


async def test_a_change_wakes_those_who_wait_and_nobody_else() -> None:
    """Waiting ends with the next replica that comes or goes, or with its time."""
    fleet = fleet_of(settings())
    await fleet.wait_for_change(0.01)
    waiting = asyncio.create_task(fleet.wait_for_change(5.0))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    fleet.replica_up("full", A, engine())
    await asyncio.wait_for(waiting, 0.5)


async def test_a_replica_s_room_is_configured_or_the_engine_s() -> None:
    """`max_in_flight` of a tier holds over the number of slots that its engine reports."""
    tree = settings()
    fleet = fleet_of(tree)
    fleet.replica_up("full", A, engine())
    assert fleet["full"].pool.replicas[0].max_in_flight == 2
    tiers = {"full": {"engine": EXTERNAL, "price": DEAR, "max_in_flight": 9}}
    fleet = fleet_of(settings(tiers=tiers))
    fleet.replica_up("full", A, engine())
    assert fleet["full"].pool.replicas[0].max_in_flight == 9


def test_the_price_of_tokens() -> None:
    """Prices are per million: 1000 in and 500 out at 1 and 4 cost 0.003."""
    tree = settings()
    tier = fleet_of(tree)["full"]
    assert tier.cost(num_input_tokens=1000, num_output_tokens=500) == pytest.approx(0.003)
