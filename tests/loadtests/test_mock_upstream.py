"""The mock upstream as a process of its own: the shape of its answers, and its pace."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from loadtests.alarms import Alarms
from loadtests.fetch import fetch
from loadtests.gateway_process import mock_upstream
from loadtests.gauges import MetricsPage, settle
from loadtests.mock_answers import MODEL
from loadtests.stream_client import ChatClient, Moment
from loadtests.timeline import Timeline

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    directory = tmp_path_factory.mktemp("mock")
    with mock_upstream(ttft_ms=40.0, itl_ms=15.0, num_tokens=5, directory=directory) as (url, child):
        yield url, child.pid


@pytest.fixture
async def client(mock: tuple[str, int]) -> AsyncIterator[ChatClient]:
    alarms = Alarms(asyncio.get_running_loop())
    client = ChatClient(mock[0], alarms=alarms, max_connections=64, timeout_s=10.0)
    yield client
    await client.close()
    alarms.close()


async def ask(client: ChatClient, *, is_streaming: bool, **members: Any) -> Timeline:
    ended: asyncio.Future[Timeline] = asyncio.get_running_loop().create_future()
    body = {"model": MODEL, "messages": MESSAGES, "stream": is_streaming, **members}
    client.send(
        client.request(orjson.dumps(body)),
        scheduled_s=time.monotonic(),
        is_streaming=is_streaming,
        on_end=ended.set_result,
    )
    return await ended


async def gauge(url: str, name: str) -> float:
    page = (await fetch(f"{url}/metrics", timeout_s=5)).body.decode()
    return float(next(line.split()[1] for line in page.splitlines() if line.startswith(f"{name} ")))


async def test_the_official_client_reads_its_answers(mock: tuple[str, int]) -> None:
    """Whole and streamed, with usage where asked for, and the list of models."""
    async with openai.AsyncOpenAI(base_url=f"{mock[0]}/v1", api_key="none", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == [MODEL]
        whole = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=3)
        assert whole.choices[0].message.content == " word" * 3
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 3
        stream = await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == " word" * 5
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


async def test_usage_is_streamed_only_where_asked_for(client: ChatClient) -> None:
    assert (await ask(client, is_streaming=True)).num_output_tokens is None
    usage = {"stream_options": {"include_usage": True}}
    assert (await ask(client, is_streaming=True, **usage)).num_output_tokens == 5


async def test_tokens_are_never_early(client: ChatClient) -> None:
    """Token k comes at 40 + 15 k ms, many streams at once or not; a whole answer with what would be its last token."""
    answers = await asyncio.gather(*(ask(client, is_streaming=index % 2 == 0) for index in range(40)))
    for answer in answers:
        assert answer.error is None
        assert answer.sent_s is not None
        if answer.is_streaming:
            delays_s = [arrived_s - answer.sent_s for arrived_s in answer.token_times_s]
            assert len(delays_s) == 5
            assert all(delay_s >= 0.040 + 0.015 * index for index, delay_s in enumerate(delays_s))
        else:
            assert answer.ended_s - answer.sent_s >= 0.040 + 0.015 * 4


async def test_the_pace_is_kept(client: ChatClient) -> None:
    """Lateness does not add up along a stream: the best of tokens 30 to 39 is no 1 ms later than the best of 0 to 9.

    Were each token timed from the one before, these would be late by all that the first thirty were.
    """
    answer = await ask(client, is_streaming=True, max_tokens=40)
    lateness_s = [arrived_s - 0.015 * index for index, arrived_s in enumerate(answer.token_times_s)]
    assert len(lateness_s) == 40
    assert min(lateness_s[30:]) - min(lateness_s[:10]) < 0.001


async def test_a_client_that_leaves_is_counted(mock: tuple[str, int], client: ChatClient) -> None:
    """Its answer is dropped, in flight goes back to zero, and one more abort stands on the metrics page."""
    url, _ = mock
    aborted = await gauge(url, "mock_requests_aborted_total")
    request = client.request(orjson.dumps({"messages": MESSAGES, "stream": True, "max_tokens": 500}))
    ended: asyncio.Future[Timeline] = asyncio.get_running_loop().create_future()
    began = asyncio.Event()

    def on_moment(moment: Moment) -> None:
        if moment is Moment.TOKEN:
            began.set()

    exchange = client.send(
        request, scheduled_s=time.monotonic(), is_streaming=True, on_end=ended.set_result, on_moment=on_moment
    )
    async with asyncio.timeout(5):
        await began.wait()
    assert await gauge(url, "mock_requests_in_flight") == 1
    exchange.abort("left")
    page = MetricsPage(url=f"{url}/metrics", gauges=("mock_requests_in_flight",), needs_all=True)
    assert (await settle([page], timeout_s=5)).leftovers == {}
    assert await gauge(url, "mock_requests_aborted_total") == aborted + 1


async def test_other_paths(mock: tuple[str, int], client: ChatClient) -> None:
    """Health is 200, the unknown is 404 in OpenAI's envelope, and a body that is no JSON is 400."""
    url, _ = mock
    assert (await fetch(f"{url}/health", timeout_s=5)).status == 200
    unknown = await fetch(f"{url}/v1/nothing", timeout_s=5)
    assert unknown.status == 404
    assert "error" in orjson.loads(unknown.body)
    ended: asyncio.Future[Timeline] = asyncio.get_running_loop().create_future()
    client.send(
        client.request(b"{"), scheduled_s=time.monotonic(), is_streaming=False, on_end=ended.set_result
    )
    assert (await ended).status == 400


async def test_what_is_no_http_ends_the_connection(mock: tuple[str, int]) -> None:
    host, port = mock[0].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as plain:
        plain.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        plain.settimeout(5)
        assert plain.recv(100) == b""


def test_a_signal_ends_it(tmp_path: Path) -> None:
    """SIGTERM and SIGINT, at once and with status 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with mock_upstream(ttft_ms=1.0, itl_ms=1.0, num_tokens=1, directory=tmp_path) as (_, child):
            os.kill(child.pid, number)
            assert child.wait(5) == 0
