"""The client against an upstream that misbehaves: every fault gets its name, and nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncIterator

import pytest

from serving.engines.base import Endpoint
from serving.upstream import client as client_module
from serving.upstream.client import UpstreamClient
from serving.upstream.deadlines import Deadlines
from serving.upstream.errors import (
    ConnectError,
    ConnectionLost,
    FirstTokenTimeout,
    IdleTimeout,
    ProtocolError,
    TotalTimeout,
    UpstreamError,
)
from tests.fakes import Fault, MockUpstream, Point, Script

PATIENT = Deadlines(connect_s=5, first_token_s=5, idle_s=5, total_s=20)
STREAM = json.dumps({"model": "m", "stream": True}).encode()
WHOLE = json.dumps({"model": "m"}).encode()
CHAT = "/v1/chat/completions"


@pytest.fixture
async def upstream() -> AsyncIterator[MockUpstream]:
    async with MockUpstream() as upstream:
        yield upstream


@pytest.fixture
async def client() -> AsyncIterator[UpstreamClient]:
    async with UpstreamClient() as client:
        yield client


class Asking:
    """Short forms of `client.post`."""

    def __init__(self, client: UpstreamClient, upstream: MockUpstream) -> None:
        self.client = client
        self.endpoint = Endpoint(url=upstream.url, api_key="ours")

    def post(
        self, body: bytes = STREAM, deadlines: Deadlines = PATIENT, *, age_s: float = 0.0, **headers: str
    ):  # type: ignore[no-untyped-def]
        return self.client.post(self.endpoint, CHAT, body, headers, deadlines, time.monotonic() - age_s)

    async def read(self, body: bytes = STREAM, deadlines: Deadlines = PATIENT) -> bytes:
        async with self.post(body, deadlines) as response:
            return b"".join([chunk async for chunk in response.chunks()])


@pytest.fixture
def ask(client: UpstreamClient, upstream: MockUpstream) -> Asking:
    return Asking(client, upstream)


async def gone(upstream: MockUpstream, *, within_s: float = 3.0) -> None:
    """Wait until no connection is left."""
    await upstream.until(lambda: upstream.num_connections == 0, within_s)


# Answers


async def test_stream_is_relayed_byte_for_byte(ask: Asking, upstream: MockUpstream) -> None:
    """However frames and characters are split on the way, the bytes are those that were sent."""
    plain = await ask.read()
    assert plain.count(b"data: ") == 7
    assert "🙂".encode() in plain
    for write_bytes in (1, 3, 7):
        upstream.queue(Script(write_bytes=write_bytes, write_gap_s=0))
        assert await ask.read() == plain
    upstream.queue(Script(is_gzipped=True))
    assert await ask.read() == plain


async def test_chunks_come_as_they_are_sent(ask: Asking, upstream: MockUpstream) -> None:
    """The first bytes are here long before the last are sent."""
    upstream.script = Script(itl_s=0.1)
    async with ask.post() as response:
        first = await anext(response.chunks())
        assert b"Hello" in first
        assert upstream.requests[0].is_open
        rest = [chunk async for chunk in response.chunks()]
    assert len(rest) >= 3


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503, 529])
async def test_statuses_are_answers(ask: Asking, upstream: MockUpstream, status: int) -> None:
    """An error status is no exception: it comes with its body and its `retry-after`, and keeps the connection."""
    upstream.script = Script(status=status, headers={"retry-after": "3"}, error={"message": "why"})
    for _ in range(2):
        async with ask.post() as response:
            assert (response.status, response.retry_after_s) == (status, 3.0)
            assert response.content_type == "application/json"
            assert json.loads(await response.read(1000))["error"]["message"] == "why"
    assert upstream.num_accepted == 1


async def test_read_is_bounded(ask: Asking, upstream: MockUpstream) -> None:
    """A body of `max_bytes` is read; of one byte more it is refused, and the connection ends."""
    upstream.script = Script(body=b"x" * 1000)
    async with ask.post(WHOLE) as response:
        assert await response.read(1000) == b"x" * 1000
    with pytest.raises(ProtocolError, match="larger"):
        async with ask.post(WHOLE) as response:
            await response.read(999)


async def test_headers_at_the_border(ask: Asking, upstream: MockUpstream) -> None:
    """The key is ours, the request id is passed on, cookies are neither kept nor sent."""
    upstream.script = Script(headers={"set-cookie": "tracked=1"})
    ask.endpoint = Endpoint(
        url=upstream.url.replace("127.0.0.1", "localhost"), api_key="ours"
    )  # cookies need a name
    for _ in range(2):
        async with ask.post(WHOLE, **{"authorization": "Bearer theirs", "x-request-id": "req-1"}) as response:
            await response.read(10_000)
    sent = upstream.requests[1].headers
    assert sent["authorization"] == "Bearer ours"
    assert sent["x-request-id"] == "req-1"
    assert sent["accept-encoding"] == "identity"
    assert "cookie" not in sent


async def test_large_body_goes_out_whole(ask: Asking, upstream: MockUpstream) -> None:
    """Megabytes of request (images) arrive unchanged and under a declared length."""
    body = json.dumps({"model": "m", "image": "x" * 3_000_000}).encode()
    await ask.read(body)
    assert upstream.requests[0].body == body
    assert upstream.requests[0].headers["content-length"] == str(len(body))


# Faults


@pytest.mark.parametrize("body", [STREAM, WHOLE], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("fault", "point", "error", "had_headers"),
    [
        (Fault.STALL, Point.HEADERS, FirstTokenTimeout, None),
        (Fault.STALL, Point.FIRST_TOKEN, FirstTokenTimeout, None),
        (Fault.STALL, Point.MID_STREAM, IdleTimeout, None),
        (Fault.RESET, Point.HEADERS, ConnectionLost, False),
        (Fault.RESET, Point.FIRST_TOKEN, ConnectionLost, True),
        (Fault.RESET, Point.MID_STREAM, ConnectionLost, True),
        (Fault.CLOSE, Point.HEADERS, ConnectionLost, False),
        (Fault.CLOSE, Point.FIRST_TOKEN, ConnectionLost, True),
        (Fault.CLOSE, Point.MID_STREAM, ConnectionLost, True),
    ],
)
async def test_each_fault_has_its_name(
    ask: Asking,
    upstream: MockUpstream,
    body: bytes,
    fault: Fault,
    point: Point,
    error: type[UpstreamError],
    had_headers: bool | None,
) -> None:
    """Stalls become the deadline that they overstep, ends become a lost connection; nothing stays open."""
    upstream.script = Script(fault=fault, fault_at=point)
    brisk = Deadlines(connect_s=5, first_token_s=0.2, idle_s=0.2, total_s=20)
    began = time.monotonic()
    with pytest.raises(error) as caught:
        await ask.read(body, brisk)
    assert time.monotonic() - began < 3.0
    assert caught.value.was_dispatched
    assert caught.value.is_retryable is (fault is not Fault.STALL)
    assert getattr(caught.value, "had_headers", None) is had_headers
    await gone(upstream)
    assert len(upstream.requests) == 1
    assert len(upstream.aborts) == (fault is Fault.STALL)


OK_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"certainly not http\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 307 Moved\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
        OK_HEAD + b"content-length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        OK_HEAD + b"content-encoding: gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        OK_HEAD + b"\r\n3\r\nabc\r\nzzz\r\nabc",
    ],
    ids=[
        "no http",
        "a tls alert",
        "negative length",
        "long header",
        "many headers",
        "redirect",
        "two lengths",
        "false gzip",
        "bad chunk",
    ],
)
async def test_garbage_is_a_protocol_error(ask: Asking, upstream: MockUpstream, raw: bytes) -> None:
    """What is no HTTP, or no answer to follow, is named so at once, and its text is not repeated to the client."""
    upstream.script = Script(raw=raw)
    with pytest.raises(ProtocolError) as caught:
        await ask.read()
    assert len(str(caught.value)) < 100
    assert "elsewhere" not in str(caught.value)
    await gone(upstream)


async def test_garbled_chunk_amid_a_stream_is_noticed_at_once(client: UpstreamClient) -> None:
    """Broken framing after good bytes does not wait for the idle deadline: aiohttp alone would let the reader hang."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK_HEAD + b"\r\n3\r\nabc\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"zzz\r\nabc")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = Endpoint(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        began = time.monotonic()
        async with client.post(endpoint, CHAT, STREAM, {}, PATIENT, began) as response:
            assert await anext(response.chunks()) == b"abc"
            with pytest.raises(ProtocolError, match="garbled"):
                await anext(response.chunks())
        assert time.monotonic() - began < 3.0


async def test_stall_of_a_body_that_ends_with_the_connection(ask: Asking, upstream: MockUpstream) -> None:
    """Closing a connection by which a body ends does not make the body whole: the deadline is told all the same."""
    upstream.script = Script(is_chunked=False, fault=Fault.STALL, fault_at=Point.MID_STREAM)
    with pytest.raises(IdleTimeout):
        await ask.read(STREAM, Deadlines(connect_s=5, first_token_s=5, idle_s=0.2, total_s=20))


async def test_unreachable(client: UpstreamClient, upstream: MockUpstream) -> None:
    """Whatever stands in the way of a connection is said, and that nothing was sent is certain."""
    spoken_to_in_tls = upstream.url.replace("http", "https")
    for url, why in [
        ("http://no-such-host.invalid", "does not resolve"),
        (spoken_to_in_tls, "TLS|accepts no connection"),
        ("no-scheme", "no http"),
        ("http://127.0.0.1:99999", "no http"),
        ("ftp://127.0.0.1", "no http"),
        (upstream.url, "accepts no connection"),
    ]:
        if url == upstream.url:
            await upstream.stop()
        with pytest.raises(ConnectError, match=why) as caught:
            async with client.post(Endpoint(url=url), CHAT, STREAM, {}, PATIENT, time.monotonic()):
                raise AssertionError
        assert not caught.value.was_dispatched
        assert url not in str(caught.value)


# Deadlines


@pytest.fixture
def full_backlog() -> AsyncIterator[int]:
    """A port whose queue of connections is full, so that nobody gets an answer to a SYN."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize(("total_s", "error"), [(20.0, ConnectError), (0.1, TotalTimeout)])
async def test_connect_deadline(
    client: UpstreamClient, full_backlog: int, total_s: float, error: type[UpstreamError]
) -> None:
    """A host that does not accept is given up after `connect_s`, or after the total where that is nearer."""
    deadlines = Deadlines(connect_s=0.2, first_token_s=5, idle_s=5, total_s=total_s)
    began = time.monotonic()
    with pytest.raises(error) as caught:
        async with client.post(
            Endpoint(url=f"http://127.0.0.1:{full_backlog}"), CHAT, STREAM, {}, deadlines, began
        ):
            raise AssertionError
    assert not caught.value.was_dispatched
    assert 0.05 < time.monotonic() - began < 3.0


async def test_headers_do_not_restart_the_first_token_deadline(ask: Asking, upstream: MockUpstream) -> None:
    """Headers at once and no token are as late as nothing at all."""
    upstream.script = Script(sends_headers_at_once=True, ttft_s=5)
    began = time.monotonic()
    with pytest.raises(FirstTokenTimeout):
        await ask.read(STREAM, Deadlines(connect_s=5, first_token_s=0.3, idle_s=0.1, total_s=20))
    assert 0.25 < time.monotonic() - began < 3.0


async def test_idle_deadline_is_per_wait(ask: Asking, upstream: MockUpstream) -> None:
    """A stream may last many times `idle_s`, as long as no single gap does; nor does TTFT fall under it."""
    upstream.script = Script(ttft_s=0.5, itl_s=0.15)
    body = await ask.read(STREAM, Deadlines(connect_s=5, first_token_s=5, idle_s=0.4, total_s=20))
    assert body.endswith(b"data: [DONE]\n\n")


async def test_whole_answers_have_only_the_total(ask: Asking, upstream: MockUpstream) -> None:
    """An answer that is no stream may take longer than any first token."""
    upstream.script = Script(ttft_s=0.4)
    brisk = Deadlines(connect_s=5, first_token_s=0.1, idle_s=0.1, total_s=20)
    assert b"Hello" in await ask.read(WHOLE, brisk.for_whole_answer())


async def test_slow_reader_is_not_idleness(ask: Asking, upstream: MockUpstream) -> None:
    """While our own client is slow the replica's clock stands still; it runs again when we wait."""
    upstream.script = Script(fault=Fault.STALL, fault_at=Point.MID_STREAM)
    async with ask.post(STREAM, Deadlines(connect_s=5, first_token_s=5, idle_s=0.2, total_s=20)) as response:
        await anext(response.chunks())
        await asyncio.sleep(0.6)
        began = time.monotonic()
        with pytest.raises(IdleTimeout):
            await response.read(10**6)
        assert 0.15 < time.monotonic() - began < 3.0


async def test_total_deadline_counts_from_arrival(ask: Asking, upstream: MockUpstream) -> None:
    """Time spent before the client was asked is spent: a request whose time is over is not sent at all."""
    deadlines = Deadlines(connect_s=5, first_token_s=5, idle_s=5, total_s=1.0)
    upstream.script = Script(itl_s=0.2, tokens=("x",) * 50)
    began = time.monotonic()
    with pytest.raises(TotalTimeout) as caught:
        async with ask.post(STREAM, deadlines, age_s=0.5) as response:
            await response.read(10**6)
    assert 0.4 < time.monotonic() - began < 3.0
    assert caught.value.was_dispatched
    await upstream.until(lambda: len(upstream.aborts) == 1)
    with pytest.raises(TotalTimeout) as caught:
        async with ask.post(STREAM, deadlines, age_s=1.0):
            raise AssertionError
    assert not caught.value.was_dispatched
    assert len(upstream.requests) == 1


async def test_total_deadline_frees_the_engine_while_nobody_reads(
    ask: Asking, upstream: MockUpstream
) -> None:
    """A client that stopped reading cannot hold a slot beyond the total: it ends, and the next read says why."""
    upstream.script = Script(itl_s=0.05, tokens=("x",) * 100)
    async with ask.post(STREAM, Deadlines(connect_s=5, first_token_s=5, idle_s=5, total_s=0.3)) as response:
        await anext(response.chunks())
        await upstream.until(lambda: upstream.aborts, 2.0)
        with pytest.raises(TotalTimeout):
            await response.read(10**6)


# Leaving


@pytest.mark.parametrize("point", list(Point))
@pytest.mark.parametrize("body", [STREAM, WHOLE], ids=["stream", "whole"])
async def test_cancellation_reaches_the_engine_in_every_phase(
    ask: Asking, upstream: MockUpstream, body: bytes, point: Point
) -> None:
    """A request that is cancelled closes its connection at once, whatever it was waiting for (pains 1–3)."""
    upstream.script = Script(fault=Fault.STALL, fault_at=point)
    task = asyncio.create_task(ask.read(body))
    await upstream.until(lambda: upstream.requests)
    await asyncio.sleep(0.1)
    cancelled_at = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await upstream.until(lambda: upstream.aborts)
    aborted_at = upstream.aborts[0].aborted_at
    assert aborted_at is not None
    assert aborted_at - cancelled_at < 1.0


async def test_leaving_early_closes(ask: Asking, upstream: MockUpstream) -> None:
    """Leaving the block with tokens still to come, by whatever way, ends the stream at its source."""
    upstream.script = Script(itl_s=0.05, tokens=("x",) * 1000)
    async with ask.post() as response:
        await anext(response.chunks())
    await upstream.until(lambda: len(upstream.aborts) == 1)
    with pytest.raises(ZeroDivisionError):
        async with ask.post() as response:
            raise ZeroDivisionError
    await upstream.until(lambda: len(upstream.aborts) == 2)
    assert all(seen.num_tokens_sent < 20 for seen in upstream.aborts)


async def test_leaving_with_an_unsent_body_closes(ask: Asking, upstream: MockUpstream) -> None:
    """A server that accepts and never reads does not keep the connection, and megabytes with it, after we left."""
    upstream.is_reading = False
    before = asyncio.all_tasks()
    with pytest.raises(FirstTokenTimeout):
        await ask.read(b" " * 30_000_000, Deadlines(connect_s=5, first_token_s=0.3, idle_s=5, total_s=20))
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    assert open_sockets_to(upstream.port) == 0


def open_sockets_to(port: int) -> int:
    """Established connections of this process to a loopback port, from the kernel's table."""
    with open("/proc/self/net/tcp") as table:  # noqa: PTH123
        rows = [line.split() for line in table.readlines()[1:]]
    return sum(row[2] == f"0100007F:{port:04X}" and row[3] == "01" for row in rows)


async def test_slow_reader_holds_the_upstream_back(ask: Asking, upstream: MockUpstream) -> None:
    """What a client does not read is not piled up here, as whole bodies are elsewhere: the upstream has to wait."""
    size = 60_000_000
    upstream.script = Script(body=b"x" * size, write_bytes=65536, write_gap_s=0)
    async with ask.post(WHOLE) as response:
        total = len(await anext(response.chunks()))
        await asyncio.sleep(0.5)
        assert upstream.requests[0].num_bytes_sent < size / 2
        async for chunk in response.chunks():
            assert len(chunk) <= 2**19
            total += len(chunk)
    assert total == size


# Connections


async def test_connections_are_reused(ask: Asking, upstream: MockUpstream) -> None:
    """Answers read to the end, streams included, share one connection; one left early does not come back."""
    for _ in range(5):
        await ask.read(STREAM)
        await ask.read(WHOLE)
    assert upstream.num_accepted == 1
    async with ask.post() as response:
        await anext(response.chunks())
    upstream.script = Script(fault=Fault.STALL, fault_at=Point.MID_STREAM)
    async with ask.post() as response:
        await anext(response.chunks())
    upstream.script = Script()
    assert (await ask.read()).endswith(b"[DONE]\n\n")


async def test_idle_connections_are_dropped_before_the_server_does(
    upstream: MockUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept for less than the five seconds after which llama.cpp and uvicorn close theirs."""
    assert client_module.KEEP_ALIVE_S < 5.0
    monkeypatch.setattr(client_module, "KEEP_ALIVE_S", 0.2)
    async with UpstreamClient() as client:
        await Asking(client, upstream).read()
        assert upstream.num_connections == 1
        await gone(upstream)


async def test_stale_connections_are_replaced_unseen(ask: Asking, upstream: MockUpstream) -> None:
    """Kept connections that the server closed before we wrote cost nothing but a new one; each request is sent once."""
    await asyncio.gather(*(ask.read() for _ in range(4)))
    assert upstream.num_connections == 4
    upstream.requests.clear()
    upstream.close_idle()
    # One turn of the loop closes the sockets, and does not yet hear of it on our side.
    await asyncio.sleep(0)
    assert (await ask.read()).endswith(b"[DONE]\n\n")
    assert len(upstream.requests) == 1
    assert upstream.num_accepted == 5


async def test_lost_on_a_kept_connection_is_not_sent_again(ask: Asking, upstream: MockUpstream) -> None:
    """A replica that dies over a request has had it, kept connection or not: only the caller may decide on another."""
    await ask.read()
    for fault in (Fault.CLOSE, Fault.RESET):
        upstream.requests.clear()
        upstream.queue(Script(fault=fault, fault_at=Point.HEADERS))
        with pytest.raises(ConnectionLost) as caught:
            await ask.read()
        assert caught.value.was_dispatched
        assert len(upstream.requests) == 1
        await ask.read()


async def test_server_that_closes_every_connection(client: UpstreamClient) -> None:
    """One that accepts and closes is not tried for ever."""
    num_accepted = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_accepted
        num_accepted += 1
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = Endpoint(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises((ConnectError, ConnectionLost)):
            async with client.post(endpoint, CHAT, STREAM, {}, PATIENT, time.monotonic()):
                raise AssertionError
    assert num_accepted == 1


async def test_unasked_answer_is_not_taken_for_the_next(client: UpstreamClient) -> None:
    """What a server says on an idle connection answers nobody: the next request gets its own answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"}"):
            name = head.split(b'"')[1]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" + name)
            await asyncio.sleep(0.05)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nghost")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = Endpoint(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for name in (b"one  ", b"two  ", b"three"):
            body = b'{"' + name + b'":0}'
            async with client.post(endpoint, CHAT, body, {}, PATIENT, time.monotonic()) as response:
                assert await response.read(100) == name
            await asyncio.sleep(0.1)


# Probes


async def test_get_json(client: UpstreamClient, upstream: MockUpstream) -> None:
    """A probe returns what was said, or says why it could not."""
    endpoint = Endpoint(url=upstream.url, api_key="ours")
    assert (await client.get_json(endpoint, "/v1/models"))["data"][0]["id"] == "mock-model"
    assert upstream.requests[0].headers["authorization"] == "Bearer ours"
    with pytest.raises(ProtocolError, match="404"):
        await client.get_json(endpoint, "/nothing")
    upstream.close_idle()
    await asyncio.sleep(0.05)
    assert await client.get_json(endpoint, "/health") == {"status": "ok"}
    await upstream.stop()
    with pytest.raises(ConnectError):
        await client.get_json(endpoint, "/health")


# The law


def random_script(rng: random.Random) -> Script:
    fault = rng.choice([None, None, *Fault])
    return Script(
        ttft_s=rng.random() * 0.02,
        itl_s=rng.random() * 0.005,
        fault=fault,
        fault_at=rng.choice(list(Point)),
        status=rng.choice([200, 200, 200, 400, 429, 500]),
        write_bytes=rng.choice([None, None, 50]),
        is_gzipped=rng.random() < 0.2,
        closes_connection=rng.random() < 0.2,
        sends_headers_at_once=rng.random() < 0.5,
    )


async def test_law_nothing_stays_behind(ask: Asking, upstream: MockUpstream) -> None:
    """After 300 requests with random faults and departures: no active request, task, timer or busy connection."""
    rng = random.Random(7)
    loop_tasks = asyncio.all_tasks()
    brisk = Deadlines(connect_s=5, first_token_s=0.15, idle_s=0.15, total_s=2)

    async def one() -> None:
        upstream.queue(random_script(rng))
        async with asyncio.timeout(rng.choice([10, 10, rng.random() * 0.05])):
            await ask.read(rng.choice([STREAM, WHOLE]), brisk)

    outcomes = []
    for _ in range(15):
        outcomes += await asyncio.gather(*(one() for _ in range(20)), return_exceptions=True)
    unexpected = [o for o in outcomes if not isinstance(o, UpstreamError | TimeoutError | type(None))]
    assert not unexpected
    assert {type(outcome) for outcome in outcomes} >= {type(None), TimeoutError, ConnectionLost, IdleTimeout}
    await upstream.until(lambda: upstream.num_active == 0)
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == loop_tasks
    assert upstream.num_connections == open_sockets_to(upstream.port) <= 20
    assert all(dispatch is None for dispatch in ask.client._carried.values())
    upstream.close_idle()
    await gone(upstream)
