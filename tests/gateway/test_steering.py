"""Requests over real HTTP, as the router sees them: λ of each, sessions, tool loops, and what the budget hears."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from router.budget import BudgetState
from router.policy import POLICY_VERSION
from tests.fakes import MockUpstream, Script
from tests.live_gateway import LiveGateway

HARD = (
    "Prove that the sum of the first n odd numbers is n^2, then derive a closed formula for the sum of their squares, "
    "and compute it for n = 37. Show each step."
)
MANUAL = {"budget": {"metric": "full_share", "target": 0.3, "mode": "manual", "price_of_compute": 0.4}}
TOOLS = [
    {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
]


def ask(*turns: str, **more: Any) -> dict[str, Any]:
    return {"model": "auto", "messages": [{"role": "user", "content": turn} for turn in turns], **more}


def after(gateway: LiveGateway) -> BudgetState:
    """The budget's state once it has heard of everything."""
    gateway.budget.tick()
    assert gateway.budget.state is not None
    return gateway.budget.state


async def test_a_decision_records_its_own_price() -> None:
    """λ is drawn from the band for each request, and the ledger has it, its metric, and how likely the choice was."""
    async with (
        MockUpstream() as upstream,
        LiveGateway({"fast": [upstream], "full": [upstream]}, settings=MANUAL) as gateway,
    ):
        for _ in range(20):
            await gateway.chat(ask("hi"))
        prices = {decision.price_of_compute for decision in gateway.books.decisions}
        assert len(prices) == 20
        assert all(price is not None and 0.38 < price < 0.421 for price in prices)
        (decision, *_) = gateway.books.decisions
        assert (decision.metric, decision.propensity, decision.policy_version) == (
            "full_share",
            1.0,
            POLICY_VERSION,
        )
        full = next(told for told in json.loads(decision.candidates) if told["arm"] == "full")
        assert full["full"] == 1.0


async def test_a_request_counts_once_however_often_it_is_tried() -> None:
    """Of a request that the fast tier failed and the full one answered, the budget hears one decision and one end."""
    settings = {"budget": {"metric": "full_share", "target": 0.3, "price_of_compute": 1.0}}
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}, settings=settings) as gateway,
    ):
        answer = await gateway.chat(ask("hi"))
        assert answer.headers["x-tierwise-tier"] == "full"
        state = after(gateway)
        assert (state.num_offers, state.realised, state.debt) == (1, 1.0, pytest.approx(0.7))
        assert gateway.books.decisions[0].num_attempts == 2


@pytest.mark.parametrize(
    ("script", "realised"), [(Script(), 1.0), (Script(status=400), 0.0), (Script(status=500), 0.0)]
)
async def test_what_the_strongest_tier_did_not_answer_is_no_share(script: Script, realised: float) -> None:
    """A refusal or a failure of the full tier is booked back; a request that never got an arm is not booked at all."""
    settings = {"budget": {"metric": "full_share", "target": 0.3}}
    async with (
        MockUpstream(script) as upstream,
        LiveGateway({"full": [upstream]}, settings=settings) as gateway,
    ):
        await gateway.chat(ask("hi"))
        await gateway.chat(ask("hi", n="many"))
        assert gateway.budget.state is not None
        gateway.budget.tick()
        assert gateway.budget.state.realised == realised


async def test_a_client_that_leaves_is_a_share_where_the_engine_had_begun() -> None:
    """One leaves its stream, one the queue before it: the full tier has worked for the first alone."""
    settings = {"budget": {"metric": "full_share", "target": 0.3}}
    slow = Script(itl_s=0.05, tokens=("a",) * 100)
    async with (
        MockUpstream(slow) as upstream,
        LiveGateway({"full": [upstream]}, max_in_flight=1, settings=settings) as gateway,
    ):
        streaming = asyncio.create_task(gateway.stream(ask("hi")))
        await upstream.until(lambda: upstream.requests)
        waiting = asyncio.create_task(gateway.chat(ask("hi")))
        await gateway.until(lambda: gateway.gauge("tierwise_queue_length") == 1)
        for task, realised in ((waiting, 0.0), (streaming, 0.5)):
            task.cancel()
            await gateway.until(lambda task=task: task.done())
            await gateway.until(lambda: gateway.gauge("tierwise_queue_length") == 0)
            if task is streaming:
                await gateway.idle()
            assert after(gateway).realised == pytest.approx(realised, abs=0.01)  # a decaying mean


async def test_engine_seconds_are_those_of_the_engine() -> None:
    """What a request waits for a free replica is not the engine's work; what it streams is."""
    settings = {"budget": {"metric": "engine_seconds_per_request", "target": 1.0}}
    slow = Script(ttft_s=0.2, tokens=("a", "b"), itl_s=0.1)
    async with (
        MockUpstream(slow) as upstream,
        LiveGateway({"fast": [upstream]}, max_in_flight=1, settings=settings) as gateway,
    ):
        await asyncio.gather(*(gateway.stream(ask("hi")) for _ in range(3)))
        state = after(gateway)
        assert state.realised == pytest.approx(0.3, abs=0.15)
        assert gateway.books.decisions[-1].total_s > 0.8
        assert gateway.budget.pricing.engine_seconds["fast"] == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize(
    ("headers", "members"), [({"x-tierwise-session": "s"}, {}), ({}, {"prompt_cache_key": "s"})]
)
async def test_a_session_stays_up_after_a_hard_turn_and_comes_down_slowly(
    headers: dict[str, str], members: dict[str, Any]
) -> None:
    """A client that sends its last turn alone: "commit it" goes where the hard turn went, small talk later does not."""
    async with (
        MockUpstream() as upstream,
        LiveGateway({"fast": [upstream], "full": [upstream]}, settings=MANUAL) as gateway,
    ):

        async def turn(text: str, **more: Any) -> tuple[str, str]:
            answer = await gateway.chat(ask(text, **members | more), headers=headers)
            return answer.headers["x-tierwise-arm"], answer.headers["x-tierwise-reason"]

        assert await turn("hi") == ("fast", "best_value")
        assert await turn(HARD) == ("full", "best_value")
        assert await turn("commit it") == ("full", "session_memory")
        assert [(await turn("thanks"))[0] for _ in range(6)][-1] == "fast"
        headers = members = {}
        assert await turn("commit it") == ("fast", "best_value")


async def test_a_tool_loop_stays_on_the_arm_that_began_it() -> None:
    """λ rises in the middle of a loop: the loop goes on where it began, a new turn does not."""
    async with (
        MockUpstream() as upstream,
        LiveGateway({"fast": [upstream], "full": [upstream]}, settings=MANUAL) as gateway,
    ):
        begun = ask(HARD, tools=TOOLS)
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        step = ask(HARD, tools=TOOLS)
        step["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
        ]
        first = await gateway.chat(begun)
        assert first.headers["x-tierwise-arm"] == "full"
        gateway.budget.change(gateway.budget.terms.model_copy(update={"price_of_compute": 5.0}))
        second = await gateway.chat(step)
        assert (second.headers["x-tierwise-arm"], second.headers["x-tierwise-reason"]) == (
            "full",
            "tool_loop_pin",
        )
        third = await gateway.chat(
            {**step, "messages": [*step["messages"], {"role": "user", "content": "and now?"}]}
        )
        assert third.headers["x-tierwise-arm"] == "fast"


async def test_a_loop_whose_arm_is_gone_goes_on_elsewhere() -> None:
    """A pin is a wish, not a wall: with the tier down, the other one answers, and keeps the rest of the loop."""
    async with (
        MockUpstream() as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}, settings=MANUAL) as gateway,
    ):
        step = ask(HARD, tools=TOOLS)
        await gateway.chat(step)
        step["messages"] += [{"role": "tool", "tool_call_id": "c1", "content": "nothing"}]
        gateway.fleet.replica_down("full", full.url)
        assert (await gateway.chat(step)).headers["x-tierwise-arm"] == "fast"
        gateway.add_replica("full", full.url)
        answer = await gateway.chat(step)
        assert (answer.headers["x-tierwise-arm"], answer.headers["x-tierwise-reason"]) == (
            "fast",
            "tool_loop_pin",
        )
