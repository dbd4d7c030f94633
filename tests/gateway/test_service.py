"""The request's story over real HTTP: departures in every phase, retries, levers, errors of our own, and the books."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import httpx
import pytest

from serving.gateway import attempt
from serving.gateway.protocols.choices import ChoicesReader
from serving.ledger.records import Outcome
from serving.upstream.breaker import BreakerState
from serving.upstream.retry import RetryBudget
from tests.fakes import Fault, MockUpstream, Point, Script
from tests.live_gateway import HI, LiveGateway, connected, post

LONG = Script(tokens=("word ",) * 400, itl_s=0.02)
BOUND_S = 0.5
"""Within so long of a departure nothing may be left of a request, on a machine that is busy with other tests."""


def body(**members: Any) -> bytes:
    return json.dumps({"model": "fast", "messages": HI, **members}).encode()


# departures


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(Script(fault=Fault.STALL, fault_at=Point.HEADERS), id="before headers"),
        pytest.param(Script(fault=Fault.STALL, fault_at=Point.FIRST_TOKEN), id="before the first token"),
        pytest.param(Script(fault=Fault.STALL, fault_at=Point.MID_STREAM), id="in the middle"),
    ],
)
async def test_a_client_that_leaves_frees_the_upstream(script: Script, is_streaming: bool) -> None:
    """In every phase the upstream hears of a departure at once, nothing is retried, and nothing is left behind."""
    async with (
        MockUpstream(script) as upstream,
        LiveGateway({"fast": [upstream], "full": [upstream]}) as gateway,
    ):
        async with connected(gateway.port) as (_, writer):
            writer.write(post(body(model="auto", stream=is_streaming)))
            await upstream.until(lambda: upstream.requests)
            await asyncio.sleep(0.05)  # into the phase
            assert not gateway.is_idle
            left_at = time.monotonic()
        await upstream.until(lambda: upstream.aborts)
        assert upstream.aborts[0].aborted_at is not None
        assert upstream.aborts[0].aborted_at - left_at < BOUND_S
        await gateway.idle(BOUND_S)
        assert len(upstream.requests) == 1
        assert gateway.books.statuses == [499]
        assert gateway.books.decisions[0].error_code == "client_disconnected"
        assert gateway.books.outcomes == [Outcome.CANCELLED]


async def test_a_client_that_leaves_in_mid_stream_stops_the_tokens() -> None:
    """A stream that runs is stopped at the upstream, and what it cost so far is in the books."""
    async with MockUpstream(LONG) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        async with connected(gateway.port) as (reader, writer):
            writer.write(post(body(stream=True)))
            await reader.readuntil(b"word ")
        await upstream.until(lambda: upstream.aborts)
        assert upstream.requests[0].num_tokens_sent < 100
        await gateway.idle(BOUND_S)
        attempt = gateway.books.attempts[0]
        assert (attempt.outcome, attempt.is_committed) == (Outcome.CANCELLED, True)
        assert attempt.cost > 0
        assert gateway.books.statuses == [499]


async def test_a_client_that_leaves_while_it_sends_never_reaches_an_upstream() -> None:
    """A body that breaks off is a departure, not a bad request."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        async with connected(gateway.port) as (_, writer):
            writer.write(post(b'{"model": "fa', content_length=1000))
            await gateway.until(lambda: gateway.service.num_running)
        await gateway.idle(BOUND_S)
        assert gateway.books.statuses == [499]
        assert not upstream.requests


async def test_a_client_that_leaves_the_queue_is_never_sent() -> None:
    """Who leaves while waiting for a replica leaves the line, and those behind move up."""
    stalled = Script(fault=Fault.STALL)
    async with (
        MockUpstream(stalled) as upstream,
        LiveGateway({"fast": [upstream]}, max_in_flight=1) as gateway,
    ):
        async with connected(gateway.port) as (_, first):
            first.write(post(body()))
            await upstream.until(lambda: upstream.requests)
            async with connected(gateway.port) as (_, second):
                second.write(post(body()))
                await gateway.until(lambda: gateway.gauge("tierwise_queue_length") == 1)
            await gateway.until(lambda: gateway.gauge("tierwise_queue_length") == 0, BOUND_S)
            assert gateway.books.statuses == [499]
            assert gateway.books.outcomes == [Outcome.CANCELLED]
        await gateway.idle(BOUND_S)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("seed", range(3))
async def test_any_mix_of_ends_leaves_nothing(seed: int) -> None:
    """After any mix of success, error, timeout and departure every gauge is at zero and every permit free."""
    rng = random.Random(seed)
    deadlines = {"first_token_s": 0.3, "idle_s": 0.3, "total_s": 1.0}
    async with (
        MockUpstream() as fast,
        MockUpstream() as full,
        LiveGateway(
            {"fast": [fast], "full": [full]}, deadlines=deadlines, max_in_flight=4, queue_timeout_s=0.5
        ) as gateway,
    ):
        for upstream in (fast, full):
            upstream.queue(*(any_script(rng) for _ in range(120)))
        await asyncio.gather(*(any_request(gateway.http, rng) for _ in range(120)))
        await gateway.idle(10.0)
        await fast.until(lambda: fast.num_active == full.num_active == 0)
        statuses = gateway.books.statuses
        assert {200, 499, 502} < set(statuses), "the mix was too tame to show anything"
        assert len(statuses) > 30, (
            "too few arrived: a busy machine lets the impatient leave before they connect"
        )
        assert gateway.gauge("tierwise_requests_total") == len(statuses)
        assert gateway.gauge("tierwise_attempts_total") == len(gateway.books.attempts)


def any_script(rng: random.Random) -> Script:
    return rng.choice(
        [
            Script(itl_s=0.05),
            Script(ttft_s=0.3),
            Script(fault=rng.choice(list(Fault)), fault_at=rng.choice(list(Point)), itl_s=0.05),
            Script(status=rng.choice([400, 429, 500, 503])),
            Script(error_frame={"message": "broken"}),
            Script(has_done=False, tokens=()),
            Script(raw=b"garbage\r\n\r\n"),
        ]
    )


async def any_request(client: httpx.AsyncClient, rng: random.Random) -> None:
    patience_s = rng.choice([0.1, 0.25, 10.0, 10.0])
    members = {"model": rng.choice(["auto", "fast", "full"]), "messages": HI, "stream": rng.random() < 0.6}
    await asyncio.sleep(rng.random() * 0.5)
    try:
        async with asyncio.timeout(patience_s):
            await client.post("/v1/chat/completions", json=members)
    except TimeoutError:
        pass


# retries


async def test_another_replica_answers_before_the_first_byte() -> None:
    """A replica that drops the request is not asked again: the next one answers, and both attempts are booked."""
    async with (
        MockUpstream(Script(fault=Fault.RESET)) as bad,
        MockUpstream() as good,
        LiveGateway({"fast": [bad, good]}) as gateway,
    ):
        for _ in range(4):
            answer = await gateway.chat()
            assert answer.status_code == 200
        assert bad.requests, "power of two choices never took the bad one"
        assert len(good.requests) == 4
        assert gateway.books.outcomes.count(Outcome.FAILURE) == len(bad.requests)
        assert gateway.gauge("tierwise_retries_total") == len(bad.requests)


async def test_another_tier_answers_where_the_router_may_choose() -> None:
    """With `auto` the other tier answers for one that fails; with a tier named, its error is the answer."""
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        answer = await gateway.chat({"model": "auto"})
        assert answer.status_code == 200
        assert answer.headers["x-tierwise-tier"] == "full"
        assert answer.headers["x-tierwise-reason"] == "only_available"
        assert [(a.tier, a.attempt) for a in gateway.books.attempts] == [("fast", 0), ("full", 1)]
        assert gateway.books.decisions[0].num_attempts == 2
        assert (await gateway.chat({"model": "fast"})).status_code == 502
        assert len(full.requests) == 1


async def test_nothing_is_retried_after_the_first_byte() -> None:
    """Once the client has seen a byte, no other replica or tier is asked: the stream ends with an error."""
    broken = Script(fault=Fault.RESET, fault_at=Point.MID_STREAM)
    async with (
        MockUpstream(broken) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        answer = await gateway.stream({"model": "auto"})
        assert answer.status == 200
        assert answer.error is not None
        assert not full.requests
        assert gateway.books.outcomes == [Outcome.FAILURE]


async def test_a_request_is_tried_three_times_at_most() -> None:
    """With every replica failing, three are asked, and the client is told not to make it more."""
    failing = [MockUpstream(Script(status=500)) for _ in range(5)]
    for upstream in failing:
        await upstream.start()
    async with LiveGateway({"fast": failing}) as gateway:
        answer = await gateway.chat()
    assert answer.status_code == 502
    assert answer.headers["x-should-retry"] == "false"
    assert sum(len(upstream.requests) for upstream in failing) == 3
    for upstream in failing:
        await upstream.stop()


async def test_retries_are_a_budget_of_the_fleet() -> None:
    """An outage does not multiply the load: once the budget is spent, requests fail with their first error."""
    budget = RetryBudget(share=0.0, floor_per_s=0.0, max_tokens=2.0)
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}, retry_budget=budget) as gateway,
    ):
        statuses = [(await gateway.chat({"model": "auto"})).status_code for _ in range(4)]
    assert statuses == [200, 200, 502, 502]


async def test_a_retry_that_nobody_could_answer_costs_no_budget() -> None:
    """Where there is no other replica to ask, the budget is left for requests that have one."""
    budget = RetryBudget(share=0.0, floor_per_s=0.0, max_tokens=1.0)
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}, retry_budget=budget) as gateway,
    ):
        assert [(await gateway.chat({"model": "fast"})).status_code for _ in range(3)] == [502] * 3
        assert (await gateway.chat({"model": "auto"})).status_code == 200


@pytest.mark.parametrize(
    ("status", "state"), [(400, "closed"), (422, "closed"), (429, "closed"), (503, "closed")]
)
async def test_client_errors_and_backpressure_never_trip_a_breaker(status: int, state: str) -> None:
    """Twenty 4xx or overloads in a row leave the replica in health, and none is retried on another for a 4xx."""
    async with MockUpstream(Script(status=status)) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        for _ in range(20):
            await gateway.chat()
        replica = gateway.fleet["fast"].pool.replicas[0]
        assert replica.state(time.monotonic()) is BreakerState.CLOSED
        assert len(upstream.requests) == 20


async def test_a_4xx_is_not_retried() -> None:
    """A request that one tier refuses is refused: the other would be paid to refuse it again."""
    async with (
        MockUpstream(Script(status=400)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        assert (await gateway.chat({"model": "auto"})).status_code == 400
        assert not full.requests
        assert gateway.books.outcomes == [Outcome.REJECTED]


async def test_failures_trip_the_breaker_and_a_probe_closes_it() -> None:
    """A replica that fails is left alone while another answers, and comes back by itself."""
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        for _ in range(8):
            assert (await gateway.chat({"model": "auto"})).status_code == 200
        assert len(fast.requests) == 5
        assert not gateway.fleet["fast"].pool.is_available
        fast.script = Script()
        await gateway.until(lambda: gateway.fleet["fast"].pool.is_available)
        answer = await gateway.chat({"model": "auto"})
        assert answer.headers["x-tierwise-tier"] == "fast"


async def test_a_sick_tier_that_was_asked_for_is_still_tried() -> None:
    """With nobody else to ask, an open breaker does not refuse: trying beats certain refusal, and at once."""
    async with MockUpstream(Script(status=500)) as fast, LiveGateway({"fast": [fast]}) as gateway:
        for _ in range(6):
            await gateway.chat()
        fast.script = Script()
        began = time.monotonic()
        assert (await gateway.chat()).status_code == 200
        assert time.monotonic() - began < 1.0


async def test_a_timeout_is_not_retried() -> None:
    """A replica that took the request and hangs was at work: asking another one would cost twice."""
    deadlines = {"first_token_s": 0.2, "total_s": 0.4}
    async with (
        MockUpstream(Script(fault=Fault.STALL)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}, deadlines=deadlines) as gateway,
    ):
        for is_streaming in (True, False):
            assert (await gateway.chat({"model": "auto", "stream": is_streaming})).status_code == 504
        assert not full.requests


async def test_many_at_once() -> None:
    """Three hundred clients before 32 places: every one is answered in its turn, and nothing is left."""
    script = Script(itl_s=0.002)
    async with (
        MockUpstream(script) as upstream,
        LiveGateway(
            {"fast": [upstream]},
            max_in_flight=32,
            max_queue=300,
            queue_timeout_s=60.0,
            deadlines={"total_s": 60.0},
        ) as gateway,
        httpx.AsyncClient(
            base_url=gateway.url, timeout=60, limits=httpx.Limits(max_connections=300)
        ) as client,
    ):
        most = 0

        async def ask(number: int) -> int:
            nonlocal most
            members = {"model": "fast", "messages": HI, "stream": number % 2 == 0}
            answer = await client.post("/v1/chat/completions", json=members)
            most = max(most, upstream.num_active)
            return answer.status_code

        assert set(await asyncio.gather(*map(ask, range(300)))) == {200}
        assert most <= 32
        await gateway.idle()


# the client's levers


@pytest.mark.parametrize(
    ("members", "headers", "arm", "reason"),
    [
        ({"model": "fast"}, {}, "fast", "client_model"),
        ({"model": "full"}, {}, "full", "client_model"),
        ({"model": "full-think"}, {}, "full-think", "client_model"),
        ({"model": "auto"}, {}, "fast", "best_value"),
        ({"model": "auto", "service_tier": "flex"}, {}, "fast", "client_service_tier"),
        ({"model": "auto", "service_tier": "auto"}, {}, "fast", "best_value"),
        ({"model": "auto"}, {"x-tierwise-arm": "full"}, "full", "client_arm"),
        ({"model": "auto"}, {"x-tierwise-min-quality": "1"}, "full-think", "quality_floor"),
        ({"model": "auto"}, {"x-tierwise-session": "s1"}, "fast", "best_value"),
    ],
)
async def test_levers(members: dict[str, Any], headers: dict[str, str], arm: str, reason: str) -> None:
    """Each lever chooses the arm, and the answer says which and why."""
    arms = [
        {"name": "fast", "tier": "fast"},
        {"name": "full", "tier": "full"},
        {"name": "full-think", "tier": "full", "request": {"reasoning_effort": "high"}},
    ]
    async with (
        MockUpstream() as upstream,
        LiveGateway({"fast": [upstream], "full": [upstream]}, settings={"arms": arms}) as gateway,
    ):
        answer = await gateway.chat(members, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-tierwise-arm"] == arm
    assert answer.headers["x-tierwise-tier"] == arm.partition("-")[0]
    assert answer.headers["x-tierwise-reason"] == reason
    assert 0 <= float(answer.headers["x-tierwise-success-probability"]) <= 1
    assert answer.headers["x-tierwise-escalated"] == "false"
    assert upstream.requests[0].json.get("reasoning_effort") == ("high" if arm == "full-think" else None)
    assert gateway.books.decisions[0].session == headers.get("x-tierwise-session")


@pytest.mark.parametrize(
    ("asked", "told", "tier"), [("flex", "flex", "fast"), ("priority", "priority", "full")]
)
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_the_service_tier_is_echoed(asked: str, told: str, tier: str, is_streaming: bool) -> None:
    """The tier that answered is told under OpenAI's name in every object, and the lever goes no further."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream], "full": [upstream]}) as gateway:
        members = {"model": "auto", "service_tier": asked}
        if is_streaming:
            stream = await gateway.stream(members)
            assert [told_.get("service_tier") for told_ in stream.objects] == [told] * len(stream.objects)
            assert stream.headers["x-tierwise-tier"] == tier
        else:
            answer = await gateway.chat(members)
            assert answer.json()["service_tier"] == told
            assert answer.headers["x-tierwise-tier"] == tier
    assert "service_tier" not in upstream.requests[0].json


async def test_the_cost_told_is_that_of_the_usage() -> None:
    """7 tokens in and 5 out at 0.2 and 0.8 a million cost 5.4e-6, in the header and in the books."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.chat()
        assert float(answer.headers["x-tierwise-cost"]) == pytest.approx(5.4e-6)
        assert answer.headers["x-tierwise-cost-basis"] == "usage"
        stream = await gateway.stream()
        assert stream.headers["x-tierwise-cost-basis"] == "expected"
        assert [decision.cost for decision in gateway.books.decisions] == pytest.approx([5.4e-6, 5.4e-6])


@pytest.mark.parametrize(
    ("members", "headers", "status", "param", "message"),
    [
        ({"model": "fasst"}, {}, 404, "model", "did you mean 'fast'"),
        ({"model": "x" * 100_000}, {}, 404, "model", "does not exist"),
        ({"model": 7}, {}, 400, "model", "a string"),
        ({}, {"x-tierwise-arm": "none"}, 400, "x-tierwise-arm", "fast"),
        ({}, {"x-tierwise-temperature": "1"}, 400, "x-tierwise-temperature", "known are"),
        ({}, {"x-tierwise-max-cost": "-1"}, 400, "x-tierwise-max-cost", "a number"),
        ({}, {"x-tierwise-max-cost": "nan"}, 400, "x-tierwise-max-cost", "a number"),
        ({"model": "auto"}, {"x-tierwise-max-cost": "0"}, 400, "x-tierwise-max-cost", "cost more"),
        ({}, {"x-tierwise-min-quality": "2"}, 400, "x-tierwise-min-quality", "from 0 to 1"),
        ({}, {"x-tierwise-session": "s" * 300}, 400, "x-tierwise-session", "longer"),
        ({"stream": "yes"}, {}, 400, "stream", "true or false"),
        ({"messages": []}, {}, 400, "messages", "at least one"),
        ({"n": 10**30}, {}, 400, "n", "whole number"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    members: dict[str, Any], headers: dict[str, str], status: int, param: str, message: str
) -> None:
    """A lever or parameter that makes no sense is an error that names it; no upstream hears of it."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.chat(members, headers=headers)
        assert not upstream.requests
        assert gateway.books.statuses == [status]
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["param"] == param
    assert message in error["message"]
    assert len(answer.content) < 2000
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"]


# keys


class OneKey:
    """A key store with one key."""

    def verify(self, presented: str) -> Any:
        return (
            type("Record", (), {"name": "tester", "is_admin": False}) if presented == "secret-key" else None
        )


@pytest.mark.parametrize("header", [None, "Basic secret-key", "Bearer", "Bearer wrong", "secret-key"])
async def test_without_a_key_nothing_is_answered(header: str | None) -> None:
    """401 in OpenAI's shape, before the body is looked at; the key is in no answer and no record."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}, keys=OneKey()) as gateway:
        headers = {} if header is None else {"authorization": header}
        for answer in (
            await gateway.http.post("/v1/chat/completions", content=b"{", headers=headers),
            await gateway.http.get("/v1/models", headers=headers),
        ):
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
            assert answer.headers["x-request-id"]
            assert answer.headers["www-authenticate"] == "Bearer"
        assert not upstream.requests


async def test_a_key_opens_and_goes_no_further() -> None:
    """The key's name is booked; the key and the client's cookies stay here, and the replica gets its own key."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}, keys=OneKey()) as gateway:
        headers = {"authorization": "bearer secret-key", "cookie": "session=1", "x-request-id": "abc"}
        answer = await gateway.chat(headers=headers)
        assert answer.status_code == 200
        assert gateway.books.decisions[0].key == "tester"
        seen = upstream.requests[0].headers
        assert seen["authorization"] == "Bearer upstream-key"
        assert seen["x-request-id"] == "abc" == answer.headers["x-request-id"]
        assert "secret-key" not in repr(seen) + repr(gateway.books.decisions)
        assert "cookie" not in seen


# our own mistakes, and the end


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_bug_of_ours_is_a_500_that_leaks_nothing(
    is_streaming: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception nobody thought of becomes OpenAI's error with a request id, is logged, and trips no breaker."""

    def broken(self: object, data: bytes) -> bytes:
        raise ValueError("the text of a prompt")

    monkeypatch.setattr(ChoicesReader, "feed" if is_streaming else "whole", broken)
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        for _ in range(6):
            answer = await gateway.chat({"stream": is_streaming}, headers={"x-request-id": "mine"})
        assert answer.status_code == 500
        assert answer.headers["x-request-id"] == "mine"
        assert answer.json()["error"]["code"] == "internal_error"
        assert "prompt" not in answer.text
        assert "the text of a prompt" in caplog.text
        assert "mine" in caplog.text
        await gateway.idle()
        assert gateway.fleet["fast"].pool.replicas[0].state(time.monotonic()) is BreakerState.CLOSED
        assert "the text" not in repr(gateway.books)


async def test_a_bug_in_mid_stream_ends_it_with_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the answer has begun, our own mistake ends it as an upstream's would."""
    feed = ChoicesReader.feed

    def broken(self: ChoicesReader, chunk: bytes) -> bytes:
        if self.num_tokens >= 2:
            raise ValueError("a bug")
        return feed(self, chunk)

    monkeypatch.setattr(ChoicesReader, "feed", broken)
    async with MockUpstream(Script(itl_s=0.02)) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.stream()
        assert answer.error is not None
        assert answer.error["code"] == "internal_error"
        await gateway.idle()


async def test_the_end_tells_every_client() -> None:
    """When the process ends, a stream gets an error event and an end, a waiting request a 503, a new one too."""
    async with MockUpstream(LONG) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        stream = asyncio.create_task(gateway.stream())
        whole = asyncio.create_task(gateway.chat())
        await upstream.until(lambda: len(upstream.requests) == 2)
        await asyncio.sleep(0.1)
        gateway.service.end_all()
        streamed, answer = await stream, await whole
        assert streamed.error is not None
        assert streamed.error["code"] == "shutting_down"
        assert not streamed.has_done
        assert answer.status_code == 503
        assert (await gateway.chat()).status_code == 503
        await gateway.idle()
        assert len(upstream.requests) == 2


async def test_what_comes_after_the_last_byte_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of ours once the answer is whole neither disturbs the connection nor changes what is booked."""

    async def broken(response: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(attempt, "_skip", broken)
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        for _ in range(2):
            assert (await gateway.stream()).has_done
        await gateway.idle()
        assert gateway.books.statuses == [200, 200]
        assert gateway.books.outcomes == [Outcome.SUCCESS, Outcome.SUCCESS]


async def test_the_queue_refuses_with_a_truthful_time() -> None:
    """A full line is a 429 that says when there will be room, by what requests take; waiting too long is one too."""
    slow = Script(ttft_s=0.4)
    async with (
        MockUpstream(slow) as upstream,
        LiveGateway({"fast": [upstream]}, max_in_flight=1, max_queue=1, queue_timeout_s=0.2) as gateway,
    ):
        await gateway.chat()
        answers = await asyncio.gather(*(gateway.chat() for _ in range(3)))
        await gateway.idle()
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429]
    for answer in answers:
        if answer.status_code == 429:
            assert answer.json()["error"]["code"] == "overloaded"
            assert 300 < int(answer.headers["retry-after-ms"]) < 3000
            assert int(answer.headers["retry-after"]) >= 1
