"""Hold-back over real HTTP: every end of a trial, what the client sees of it, and the books."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from router.arms import Arm
from router.difficulty import Assessment, Forecast, StructuralHeuristic
from router.escalation import EscalationModel, PairModel, Revision
from router.policy import RoutingPolicy
from router.request import RequestView
from serving.ledger.records import Outcome
from tests.fakes import Fault, MockUpstream, Point, Script
from tests.live_gateway import LiveGateway, connected, post

NUM_HELD = 3
MODEL = EscalationModel(
    (
        PairModel(
            first="fast",
            next="full",
            statistic="mean_margin",
            num_tokens=NUM_HELD,
            lowest=0.0,
            revise_first=Revision(
                intercept=-4.0, slope=0.0, weight=4.0
            ),  # 0.02 at a toss-up, 0.98 at a margin of 2
            revise_next=Revision(intercept=2.0, slope=0.0, weight=0.0),
        ),
    )
)


class Undecided(StructuralHeuristic):
    """Takes every request for as hard as any other, so that the cheaper arm is worth it."""

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        return Assessment(
            forecasts={arm.name: Forecast(success_probability=0.8, num_output_tokens=50.0) for arm in arms}
        )


WORDS = ("a", "b", "c", "d", "e", "f")
SURE = Script(tokens=WORDS, margins=(2.0,))
DOUBTFUL = Script(tokens=WORDS, margins=(0.0,), itl_s=0.01)
FULL = Script(tokens=("full",), prompt_tokens=9, margins=(1.0,))
BAND = {"highest_probability": 1.0, "max_ms": 5000.0}


@asynccontextmanager
async def gateway(
    fast: Script, full: Script = FULL, **band: float
) -> AsyncIterator[tuple[LiveGateway, MockUpstream, MockUpstream]]:
    settings = {"router": {"escalation": {**BAND, **band}}}
    async with (
        MockUpstream(fast) as cheap,
        MockUpstream(full) as dear,
        LiveGateway(
            {"fast": [cheap], "full": [dear]},
            policy=RoutingPolicy(Undecided()),
            escalation=MODEL,
            settings=settings,
        ) as live,
    ):
        yield live, cheap, dear
        await live.idle()


def ends(live: LiveGateway) -> dict[str, float]:
    """How trials ended, those that happened."""
    lines = live.metrics.render().decode().splitlines()
    told = [line for line in lines if line.startswith("tierwise_holds_total{") and not line.endswith(" 0.0")]
    return {line.split('end="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in told}


AUTO: dict[str, Any] = {"model": "auto"}


async def test_a_sure_answer_is_passed_on_whole() -> None:
    """Flush: the client gets the stream as it would without hold-back, and no log-probabilities that it did not ask."""
    async with gateway(SURE) as (live, cheap, dear):
        held = await live.stream({**AUTO, "stream_options": {"include_usage": True}})
        plain = await live.stream({"model": "fast", "stream_options": {"include_usage": True}})
        assert held.objects == plain.objects
        assert held.has_done
        assert held.headers["x-tierwise-escalated"] == "false"
        assert "logprobs" not in held.wire.decode()
        asked = [request.json for request in cheap.requests]
        assert (asked[0]["logprobs"], asked[0]["top_logprobs"]) == (True, 2)
        assert "logprobs" not in asked[1]
        assert not dear.requests
        assert ends(live) == {"flushed": 1.0}
        assert live.gauge("tierwise_escalation_wasted_tokens_total") == 0


async def test_a_doubtful_answer_is_escalated() -> None:
    """The client sees one answer, one usage and one id, of the next arm alone; the engine of the first may stop."""
    async with gateway(DOUBTFUL) as (live, cheap, _):
        answer = await live.stream({**AUTO, "stream_options": {"include_usage": True}})
        assert (answer.status, answer.text, answer.has_done) == (200, "full", True)
        assert [usage["prompt_tokens"] for usage in answer.usages] == [9]
        assert answer.headers["x-tierwise-escalated"] == "true"
        assert answer.headers["x-tierwise-arm"] == "full"
        assert answer.headers["x-tierwise-reason"] == "escalation"
        assert float(answer.headers["x-tierwise-success-probability"]) == pytest.approx(0.8808)
        await cheap.until(lambda: cheap.aborts)
        assert cheap.requests[0].num_tokens_sent < len(WORDS)
        first, second = live.books.attempts
        assert (first.outcome, first.error, first.is_committed) == (Outcome.CANCELLED, "escalated", False)
        assert (second.outcome, second.is_committed, second.attempt) == (Outcome.SUCCESS, True, 1)
        assert ends(live) == {"escalated": 1.0}
        assert live.gauge("tierwise_escalation_wasted_tokens_total") == NUM_HELD
        assert live.gauge("tierwise_holds_total") == 1


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_both_attempts_are_paid_once(is_streaming: bool) -> None:
    """What the ledger has of the request is the sum of its attempts, which is told to client and budget."""
    async with gateway(DOUBTFUL) as (live, *_):
        spent = []
        live.budget.ended = lambda arm, *, expected, realised: spent.append((arm, realised))  # type: ignore[method-assign]
        answer = await live.chat({**AUTO, "stream": is_streaming})
        await live.idle()
        first, second = live.books.attempts
        assert second.cost == pytest.approx((9 * 1.0 + 1 * 4.0) / 1e6)
        assert first.cost > NUM_HELD * 0.8 / 1e6
        (decision,) = live.books.decisions
        assert (decision.arm, decision.reason, decision.num_attempts) == ("full", "escalation", 2)
        told = {each["arm"]: each for each in json.loads(decision.candidates)}
        assert told["full"]["raw"] == decision.success_probability == pytest.approx(0.8808, abs=1e-4)
        assert told["full"]["weighed"] == 0.8
        assert decision.cost == pytest.approx(first.cost + second.cost)
        ((arm, realised),) = spent
        assert (arm, realised.full_share) == (None, 1.0)
        assert realised.cost == pytest.approx(first.cost + second.cost)
        shown = float(answer.headers["x-tierwise-cost"])
        if is_streaming:
            assert answer.headers["x-tierwise-cost-basis"] == "expected"
            assert shown > first.cost
        else:
            assert shown == pytest.approx(first.cost + second.cost, abs=1e-9)


async def test_a_whole_answer_is_held_as_a_stream() -> None:
    """A client that does not stream gets the same body from a trial as without one, passed on or escalated."""
    async with gateway(SURE) as (live, cheap, _):
        held, plain = (await live.chat(AUTO)).json(), (await live.chat({"model": "fast"})).json()
        assert cheap.requests[0].json["stream"] is True
        for answer in (held, plain):
            for choice in answer["choices"]:
                assert choice.pop("logprobs", None) is None
        assert held == plain
    async with gateway(DOUBTFUL) as (live, cheap, _):
        answer = await live.chat(AUTO)
        assert answer.json()["choices"][0]["message"]["content"] == "full"
        assert answer.json()["usage"]["completion_tokens"] == 1
        assert answer.headers["x-tierwise-escalated"] == "true"
        await cheap.until(lambda: cheap.aborts)


async def test_a_short_answer_is_judged_by_all_of_it() -> None:
    """An answer that ends before the commit point is settled at its end."""
    async with gateway(Script(tokens=("a",), margins=(0.0,))) as (live, *_):
        assert (await live.stream(AUTO)).text == "full"
    async with gateway(Script(tokens=("a",), margins=(2.0,))) as (live, *_):
        assert (await live.stream(AUTO)).text == "a"


async def test_tokens_that_come_too_slowly_are_passed_on() -> None:
    """Timeout: the first token waits no longer than it may, and the stream then runs on as it comes."""
    slow = Script(tokens=WORDS[:4], margins=(0.0,), itl_s=0.5)  # the commit point would come after a second
    async with gateway(slow, max_ms=60.0) as (live, _, dear):
        async with connected(live.port) as (reader, writer):
            begun = time.monotonic()
            body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
            writer.write(post(json.dumps(body).encode(), connection="close"))
            await reader.readuntil(b'"content":"a"')
            assert 0.05 < time.monotonic() - begun < 0.9
            wire = await reader.read()
        assert b"logprobs" not in wire
        assert b'"content":"d"' in wire
        assert b"[DONE]" in wire
        assert not dear.requests
        assert ends(live) == {"timed_out": 1.0}
        assert live.books.outcomes == [Outcome.SUCCESS]


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_client_that_leaves_in_hold_leaves_nothing(is_streaming: bool) -> None:
    """The held attempt is cancelled at once, nobody else is asked, and nothing is left of the request."""
    stuck = Script(tokens=WORDS, margins=(0.0,), fault=Fault.STALL, fault_at=Point.MID_STREAM)
    async with gateway(stuck) as (live, cheap, dear):
        async with connected(live.port) as (_, writer):
            body = {"model": "auto", "stream": is_streaming, "messages": [{"role": "user", "content": "hi"}]}
            writer.write(post(json.dumps(body).encode()))
            await live.until(lambda: cheap.requests and cheap.requests[0].num_tokens_sent == 2)
            await asyncio.sleep(0.05)
        await cheap.until(lambda: cheap.aborts)
        await live.idle()
        assert not dear.requests
        assert live.books.statuses == [499]
        assert live.books.outcomes == [Outcome.CANCELLED]
        assert live.books.attempts[0].error == "cancelled"
        assert live.books.attempts[0].cost > 0
        assert ends(live) == {"abandoned": 1.0}
        assert live.gauge("tierwise_escalation_wasted_tokens_total") == 2


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"fault": Fault.RESET, "fault_at": Point.MID_STREAM}, id="reset"),
        pytest.param({"fault": Fault.CLOSE, "fault_at": Point.MID_STREAM}, id="closed"),
        pytest.param({"error_frame": {"message": "no", "code": 500}}, id="error event"),
        pytest.param({"status": 500}, id="status"),
    ],
)
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_an_engine_that_fails_in_hold_is_an_ordinary_failure(
    broken: dict[str, Any], is_streaming: bool
) -> None:
    """Nothing has been sent, so the request is tried elsewhere; that is a retry and no escalation."""
    async with gateway(Script(tokens=WORDS, margins=(0.0,), **broken)) as (live, *_):
        answer = await live.chat({**AUTO, "stream": is_streaming})
        assert answer.status_code == 200
        assert "full" in answer.text
        assert answer.headers["x-tierwise-escalated"] == "false"
        await live.idle()
        assert live.books.outcomes == [Outcome.FAILURE, Outcome.SUCCESS]
        assert live.books.decisions[0].reason == "only_available"


async def test_a_next_arm_that_fails_falls_back_to_the_first_without_a_second_trial() -> None:
    """After an escalation nothing is held back again."""
    async with gateway(DOUBTFUL, Script(status=500)) as (live, cheap, dear):
        answer = await live.stream(AUTO)
        assert answer.text == "".join(WORDS)
        assert (len(cheap.requests), len(dear.requests)) == (2, 1)
        assert live.books.outcomes == [Outcome.CANCELLED, Outcome.FAILURE, Outcome.SUCCESS]
        assert ends(live) == {"escalated": 1.0}


async def test_a_client_that_asks_for_logprobs_gets_them() -> None:
    """Its own alternatives, no more: hold-back asks for two and takes the rest out again."""
    async with gateway(SURE) as (live, cheap, _):
        answer = await live.stream({**AUTO, "logprobs": True, "top_logprobs": 1})
        assert cheap.requests[0].json["top_logprobs"] == 2
        told = [
            entry
            for each in answer.objects
            for choice in each["choices"]
            for entry in (choice.get("logprobs") or {}).get("content") or ()
        ]
        assert [entry["token"] for entry in told] == list(WORDS)
        assert {len(entry["top_logprobs"]) for entry in told} == {1}
        assert ends(live) == {"flushed": 1.0}


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_responses_are_held_too(is_streaming: bool) -> None:
    """The Responses API, translated to chat, sees the same trial."""
    asked = {"model": "auto", "input": "hi", "stream": is_streaming}
    for script, text in ((SURE, "".join(WORDS)), (DOUBTFUL, "full")):
        async with gateway(script) as (live, cheap, _):
            answer = await live.http.post("/v1/responses", json=asked)
            assert answer.status_code == 200
            assert cheap.requests[0].json["top_logprobs"] == 2
            assert text in answer.text
            assert "top_logprobs" not in answer.text.replace('"top_logprobs":0', "").replace(
                '"top_logprobs":null', ""
            )
            if not is_streaming:
                assert answer.json()["output"][0]["content"][0]["text"] == text
            else:
                assert answer.text.count("event: response.created") == 1
                assert answer.text.count("event: response.completed") == 1


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("asked", "headers"),
    [
        pytest.param({"model": "fast"}, {}, id="a tier"),
        pytest.param({}, {"x-tierwise-arm": "fast"}, id="an arm"),
        pytest.param({"service_tier": "flex"}, {}, id="flex"),
        pytest.param({"n": 2}, {}, id="two choices"),
        pytest.param({"tools": [TOOL]}, {}, id="tools"),
        pytest.param({"response_format": {"type": "json_object"}}, {}, id="a schema"),
        pytest.param({}, {"x-tierwise-max-cost": "0.0002"}, id="not affordable twice"),
    ],
)
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_what_is_never_held(asked: dict[str, Any], headers: dict[str, str], is_streaming: bool) -> None:
    """A client's own choice, several choices, tools and schemas go their way at once, however doubtful."""
    async with gateway(DOUBTFUL) as (live, cheap, dear):
        answer = await live.chat({**AUTO, "stream": is_streaming, **asked}, headers=headers)
        assert answer.status_code == 200
        assert "logprobs" not in cheap.requests[0].json
        assert not dear.requests
        assert ends(live) == {}


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.1), (0.9, 1.0)])
async def test_outside_the_band_nothing_is_held(low: float, high: float) -> None:
    """A forecast that is certain enough, either way, is not put to the trial."""
    async with gateway(DOUBTFUL, lowest_probability=low, highest_probability=high) as (live, cheap, _):
        assert (await live.stream(AUTO)).text == "".join(WORDS)
        assert "logprobs" not in cheap.requests[0].json
        assert ends(live) == {}


async def test_an_engine_that_tells_nothing_is_passed_on() -> None:
    """Without a word on its tokens the stream is held no longer than to its end, and never escalated."""
    async with gateway(Script(tokens=WORDS)) as (live, _, dear):
        assert (await live.stream(AUTO)).text == "".join(WORDS)
        assert not dear.requests
        assert ends(live) == {"flushed": 1.0}


async def test_frames_cut_anywhere() -> None:
    """Wherever the network cuts the held events, the client gets whole ones."""
    cut = Script(
        tokens=("wörld", " 🙂", "x", "y"), margins=(2.0,), write_bytes=5, newline="\r\n", comment="beat"
    )
    async with gateway(cut) as (live, *_):
        assert (await live.stream(AUTO)).text == "wörld 🙂xy"
