"""What the chat client writes down of each kind of answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from loadtests.alarms import Alarms
from loadtests.http_client import Exchange
from loadtests.stream_client import ChatClient, Moment
from loadtests.timeline import Timeline
from tests.fakes import Fault, MockUpstream, Point, Script


class Bench:
    """A client and the server it talks to."""

    def __init__(self, upstream: MockUpstream, client: ChatClient) -> None:
        self.upstream = upstream
        self._client = client
        self.moments: list[Moment] = []

    def send(
        self, *, is_streaming: bool, scheduled_s: float | None = None
    ) -> tuple[Exchange, asyncio.Future[Timeline]]:
        body: dict[str, Any] = {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": is_streaming,
        }
        if is_streaming:
            body["stream_options"] = {"include_usage": True}
        ended: asyncio.Future[Timeline] = asyncio.get_running_loop().create_future()
        exchange = self._client.send(
            self._client.request(orjson.dumps(body)),
            scheduled_s=time.monotonic() if scheduled_s is None else scheduled_s,
            is_streaming=is_streaming,
            on_end=ended.set_result,
            on_moment=self.moments.append,
        )
        return exchange, ended

    async def ask(self, script: Script, *, is_streaming: bool = True) -> Timeline:
        self.upstream.script = script
        async with asyncio.timeout(5):
            return await self.send(is_streaming=is_streaming)[1]


@pytest.fixture
async def make_bench() -> AsyncIterator[Callable[..., Any]]:
    alarms = Alarms(asyncio.get_running_loop())
    clients: list[ChatClient] = []
    async with MockUpstream() as upstream:

        def make(**options: Any) -> Bench:
            settings = {"max_connections": 4, "timeout_s": 5.0} | options
            clients.append(ChatClient(upstream.url, alarms=alarms, **settings))
            return Bench(upstream, clients[-1])

        yield make
        for client in clients:
            await client.close()
    alarms.close()


async def test_a_stream_has_a_time_for_each_token(make_bench: Callable[..., Bench]) -> None:
    """The role chunk and the finish are no output; usage counts tokens by itself; times follow the upstream's pace."""
    bench = make_bench()
    script = Script(ttft_s=0.05, itl_s=0.02, tokens=("a", "b", "c"), headers={"x-tierwise-tier": "fast"})
    timeline = await bench.ask(script)
    assert (timeline.status, timeline.error, timeline.tier) == (200, None, "fast")
    assert len(timeline.token_times_s) == 3
    assert timeline.num_output_tokens == 3
    assert timeline.ttft_s is not None
    assert timeline.ttft_s >= 0.05
    assert timeline.e2e_s >= 0.09
    assert timeline.headers_s is not None
    assert timeline.sent_s is not None
    assert timeline.scheduled_s <= timeline.sent_s <= timeline.headers_s <= timeline.token_times_s[0]
    assert bench.moments == [Moment.SENT, Moment.HEADERS, *[Moment.TOKEN] * 3]


async def test_a_whole_answer_has_usage_and_no_tokens(make_bench: Callable[..., Bench]) -> None:
    timeline = await make_bench().ask(Script(ttft_s=0.02, tokens=("a", "b")), is_streaming=False)
    assert (timeline.status, timeline.error) == (200, None)
    assert (timeline.token_times_s, timeline.num_output_tokens) == ((), 2)
    assert timeline.e2e_s >= 0.02


async def test_latency_counts_from_the_schedule(make_bench: Callable[..., Bench]) -> None:
    """A generator that is a second late says so in the latency, and as its own lateness."""
    bench = make_bench()
    timeline = await bench.send(is_streaming=True, scheduled_s=time.monotonic() - 1.0)[1]
    assert timeline.e2e_s > 1.0
    assert timeline.send_lateness_s is not None
    assert timeline.send_lateness_s >= 1.0


async def test_waiting_for_a_connection_counts(make_bench: Callable[..., Bench]) -> None:
    """One connection, two requests at once: the second one's latency holds the first one's answer."""
    bench = make_bench(max_connections=1)
    bench.upstream.script = Script(ttft_s=0.1)
    first, second = bench.send(is_streaming=False)[1], bench.send(is_streaming=False)[1]
    assert (await first).e2e_s < 0.19
    assert (await second).e2e_s > 0.19


@pytest.mark.parametrize(
    ("script", "is_streaming", "error"),
    [
        (Script(status=429, error={"message": "too many"}), True, "status 429: too many"),
        (Script(status=503, body=b"<h1>busy</h1>"), False, "status 503: <h1>busy</h1>"),
        (Script(has_done=False), True, "without [DONE]"),
        (Script(error_frame={"message": "engine died"}), True, "ended with an error: engine died"),
        (Script(body=b"data: {\n\ndata: [DONE]\n\n"), True, "an event of the stream is no JSON"),
        (Script(body=b"pong"), False, "the answer is no JSON"),
        (Script(body=b'{"choices": []}'), False, "no choices"),
        (Script(fault=Fault.CLOSE, fault_at=Point.MID_STREAM), True, "closed the connection"),
        (Script(fault=Fault.CLOSE, fault_at=Point.MID_STREAM), False, "closed the connection"),
    ],
)
async def test_what_is_no_complete_answer_says_why(
    make_bench: Callable[..., Bench], script: Script, is_streaming: bool, error: str
) -> None:
    """Statuses, error events, broken streams and bodies: none of them counts as answered."""
    timeline = await make_bench().ask(script, is_streaming=is_streaming)
    assert timeline.error is not None
    assert error in timeline.error


@pytest.mark.parametrize("delta", ["reasoning", "reasoning_content", "tool_calls"])
async def test_any_kind_of_output_is_a_token(make_bench: Callable[..., Bench], delta: str) -> None:
    """Thoughts and tool calls are progress as text is; an empty delta is not."""
    chunks = [{"role": "assistant", "content": None}, {delta: ["x"]}, {"content": ""}, {}]
    frames = [orjson.dumps({"choices": [{"index": 0, "delta": chunk}]}) for chunk in chunks]
    body = b"".join(b"data: " + frame + b"\n\n" for frame in [*frames, b"[DONE]"])
    timeline = await make_bench().ask(Script(body=body))
    assert timeline.error is None
    assert len(timeline.token_times_s) == 1


async def test_an_answer_that_takes_too_long_is_broken_off(make_bench: Callable[..., Bench]) -> None:
    """Counted from the scheduled moment, and the server sees the connection go."""
    bench = make_bench(timeout_s=0.1)
    timeline = await bench.ask(Script(fault=Fault.STALL, fault_at=Point.MID_STREAM))
    assert timeline.error == "no complete answer within 0.1 s"
    assert timeline.token_times_s
    await bench.upstream.until(lambda: bench.upstream.aborts)


async def test_the_key_is_sent_as_a_bearer(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(api_key="sk-test")
    await bench.ask(Script())
    assert bench.upstream.requests[0].headers["authorization"] == "Bearer sk-test"
