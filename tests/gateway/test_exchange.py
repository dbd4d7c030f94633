"""Bodies that come slowly, too large or not at all, and clients that read slowly or not at all."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import psutil
import pytest

from serving.gateway import exchange
from serving.gateway.errors import ApiError
from serving.gateway.exchange import ClientDisconnectedError, Exchange, Message
from tests.fakes import MockUpstream, Script
from tests.live_gateway import HI, LiveGateway, connected, post

SCOPE = {"headers": [(b"content-type", b"application/json")]}


class Client:
    """The other end of an `Exchange`, by ASGI messages."""

    def __init__(self, *messages: Message) -> None:
        self.sent: list[Message] = []
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self._inbox.put_nowait(message)

    async def receive(self) -> Message:
        return await self._inbox.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body" and not message["more_body"]:
            self.leave()  # servers say so after the last byte too

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})

    def exchange(self) -> Exchange:
        return Exchange(SCOPE, self.receive, self.send)


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_is_its_parts() -> None:
    """A body that comes in pieces is put together, one that comes whole is not copied."""
    whole = b"whole"
    assert await Client(part(whole)).exchange().read_body(5) is whole
    assert (
        await Client(part(b"a", more=True), part(b"", more=True), part(b"b")).exchange().read_body(2) == b"ab"
    )


async def test_a_body_may_be_as_long_as_allowed_and_no_longer() -> None:
    """At the limit it is taken, one byte above it is 413, whether or not its length was announced."""
    for pieces in ([b"123456"], [b"123", b"456"]):
        messages = [part(piece, more=True) for piece in pieces] + [part(b"")]
        assert await Client(*messages).exchange().read_body(6) == b"123456"
        with pytest.raises(ApiError) as refused:
            await Client(*messages).exchange().read_body(5)
        assert refused.value.status == 413


async def test_the_block_is_cancelled_when_the_client_leaves() -> None:
    """Whatever is awaited in the block ends with the client, and the task goes on uncancelled."""
    client = Client()

    async def run() -> None:
        async with client.exchange().cancelled_on_disconnect():
            client.leave()
            await asyncio.sleep(10)

    with pytest.raises(ClientDisconnectedError):
        await run()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    """A task that is cancelled by somebody else is not taken for one whose client left."""

    async def run() -> None:
        async with Client().exchange().cancelled_on_disconnect():
            await asyncio.sleep(10)

    task = asyncio.create_task(run())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_happens_after_the_last_byte_is_no_departure() -> None:
    """A server reports the end of an exchange like a departure; the answer is whole all the same."""
    client = Client()
    told = client.exchange()
    async with told.cancelled_on_disconnect():
        await told.respond(200, b"{}", [])
        await asyncio.sleep(0.05)


async def test_an_error_in_the_block_stays_itself() -> None:
    """An error that is raised just as the client leaves is not lost."""
    client = Client()

    async def run() -> None:
        async with client.exchange().cancelled_on_disconnect():
            client.leave()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run()


# over HTTP


async def test_too_large_a_body_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """413 comes on the announced length alone, and mid-way where none was announced; the connection ends soon after."""
    monkeypatch.setattr(exchange, "LINGER_S", 0.2)
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}, max_body_bytes=1000) as gateway:
        async with connected(gateway.port) as (reader, writer):
            writer.write(post(b"{", content_length=10**12))
            answer = await asyncio.wait_for(reader.read(), 2)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"request_too_large" in answer
        async with connected(gateway.port) as (reader, writer):
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
            answer = await asyncio.wait_for(reader.read(), 2)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert gateway.books.statuses == [413, 413]
        assert not upstream.requests


async def test_a_body_that_does_not_come_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that dawdles over its body is told so, and its connection ends, so that it cannot go on dawdling."""
    monkeypatch.setattr(exchange, "BODY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(exchange, "LINGER_S", 0.2)
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        async with connected(gateway.port) as (reader, writer):
            writer.write(post(b"{", content_length=100))
            answer = await asyncio.wait_for(reader.read(), 2)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"request_timeout" in answer
        await gateway.idle()
        assert gateway.books.statuses == [408]


async def test_expect_continue_is_answered_before_the_body() -> None:
    """curl asks before it sends a large body; it is told to go on, or why not."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}, max_body_bytes=1000) as gateway:
        body = json.dumps({"model": "fast", "messages": HI}).encode()
        async with connected(gateway.port) as (reader, writer):
            writer.write(post(b"", content_length=len(body), expect="100-continue"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        async with connected(gateway.port) as (reader, writer):
            writer.write(post(b"", content_length=5000, expect="100-continue"))
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")


def slow_client(port: int) -> socket.socket:
    """A client whose own buffers are small, so that what it does not read is the gateway's to hold."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    client.send(post(json.dumps({"model": "fast", "messages": HI, "stream": True}).encode()))
    return client


LARGE = Script(tokens=("x" * 50_000,) * 400)
"""20 MB: more than all sockets on the way hold."""


async def test_a_slow_client_slows_the_upstream_and_is_no_fault_of_it() -> None:
    """Back-pressure reaches the upstream, costs no memory, and no idle deadline runs while the client is slow."""
    deadlines = {"idle_s": 0.3, "first_token_s": 0.3}
    async with (
        MockUpstream(LARGE) as upstream,
        LiveGateway({"fast": [upstream]}, deadlines=deadlines) as gateway,
    ):
        client = slow_client(gateway.port)
        await asyncio.sleep(0.5)
        num_sent = upstream.requests[0].num_tokens_sent
        await asyncio.sleep(0.7)
        assert upstream.requests[0].num_tokens_sent == num_sent < 400
        loop = asyncio.get_running_loop()
        received = bytearray()
        while not received.endswith(b"0\r\n\r\n"):
            piece = await asyncio.wait_for(loop.sock_recv(client, 2**20), 5)
            assert piece, "the stream ended in silence"
            received += piece
        client.close()
        assert received.count(b"x" * 50_000) == 400
        assert b"[DONE]" in received
        assert b'"error"' not in received
        await gateway.idle()
        assert gateway.books.statuses == [200]


async def test_a_client_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that neither reads nor leaves gets its replica taken away after a while, and is booked as gone."""
    monkeypatch.setattr(exchange, "CLIENT_STALL_S", 0.5)
    async with MockUpstream(LARGE) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        client = slow_client(gateway.port)
        await upstream.until(lambda: upstream.aborts, 3)
        await gateway.idle()
        assert gateway.books.statuses == [499]
        assert gateway.books.decisions[0].error_code == "client_stalled"
        client.close()


async def test_an_error_event_does_not_wait_for_a_client_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The upstream's total time ends while the client is stuck: nothing waits for it for ever."""
    monkeypatch.setattr(exchange, "CLIENT_STALL_S", 1.0)
    deadlines = {"total_s": 0.4}
    async with (
        MockUpstream(LARGE) as upstream,
        LiveGateway({"fast": [upstream]}, deadlines=deadlines) as gateway,
    ):
        client = slow_client(gateway.port)
        await upstream.until(lambda: upstream.aborts, 1.0)
        await gateway.idle(3.0)
        client.close()


async def test_a_long_stream_takes_no_memory() -> None:
    """A hundred thousand events pass through in the memory of one: nothing of a stream is kept."""
    script = Script(tokens=("w" * 100,) * 2500)
    process = psutil.Process()
    async with MockUpstream(script) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        await gateway.stream({"n": 2})  # whatever is made once is made
        before = process.memory_info().rss
        num_bytes = 0
        began = time.monotonic()
        async with gateway.http.stream(
            "POST", "/v1/chat/completions", json={"model": "fast", "messages": HI, "stream": True, "n": 40}
        ) as response:
            async for piece in response.aiter_raw():
                num_bytes += len(piece)
        assert num_bytes > 20 * 2**20
        assert process.memory_info().rss - before < 8 * 2**20
        assert time.monotonic() - began < 60
        assert gateway.books.attempts[-1].usage.completion_tokens == 2500


async def test_pipelined_and_reused_connections() -> None:
    """Requests on one connection are answered one after the other, errors among them."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        good = post(json.dumps({"model": "fast", "messages": HI}).encode())
        async with connected(gateway.port) as (reader, writer):
            writer.write(good + post(b"{}") + good)
            statuses = []
            for _ in range(3):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 2)
                statuses.append(int(head.split()[1]))
                length = next(
                    line for line in head.lower().splitlines() if line.startswith(b"content-length")
                )
                await reader.readexactly(int(length.split(b":")[1]))
        assert statuses == [200, 400, 200]
        await gateway.idle()
