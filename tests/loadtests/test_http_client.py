"""The light HTTP client against a server that misbehaves on demand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from loadtests.fetch import FetchError, fetch
from loadtests.http_client import ConnectionPool, Origin
from tests.fakes import Fault, MockUpstream, Point, Script


class Heard:
    """A listener that keeps everything."""

    def __init__(self) -> None:
        self.is_reused: bool | None = None
        self.status: int | None = None
        self.body = b""
        self.times_s: list[float] = []
        self.endings: list[str | None] = []
        self.ended = asyncio.Event()

    def on_sent(self, now_s: float, *, is_reused_connection: bool) -> None:
        self.is_reused = is_reused_connection
        self.times_s.append(now_s)

    def on_headers(self, status: int, headers: dict[bytes, bytes], now_s: float) -> None:
        self.status = status
        self.times_s.append(now_s)

    def on_body(self, data: bytes, now_s: float) -> None:
        self.body += data
        self.times_s.append(now_s)

    def on_end(self, error: str | None, now_s: float) -> None:
        self.endings.append(error)
        self.times_s.append(now_s)
        self.ended.set()

    async def ending(self) -> str | None:
        async with asyncio.timeout(5):
            await self.ended.wait()
        await asyncio.sleep(0.02)  # a second ending would come about now
        assert len(self.endings) == 1
        return self.endings[0]


@pytest.fixture
async def upstream() -> AsyncIterator[MockUpstream]:
    async with MockUpstream(Script()) as upstream:
        yield upstream


def make_pool(upstream: MockUpstream, *, max_connections: int = 8) -> ConnectionPool:
    return ConnectionPool(
        Origin.parse(upstream.url), max_connections=max_connections, loop=asyncio.get_running_loop()
    )


def post(pool: ConnectionPool) -> bytes:
    return pool.origin.request("POST", "/v1/chat/completions", body=b'{"messages": [], "stream": true}')


async def test_one_connection_carries_request_after_request(upstream: MockUpstream) -> None:
    """What is kept alive is used again, and the listener is told."""
    pool = make_pool(upstream)
    heard = [Heard() for _ in range(3)]
    for listener in heard:
        pool.send(post(pool), listener)
        assert await listener.ending() is None
    assert [listener.is_reused for listener in heard] == [False, True, True]
    assert all(listener.status == 200 and b"[DONE]" in listener.body for listener in heard)
    assert all(listener.times_s == sorted(listener.times_s) for listener in heard)
    assert upstream.num_accepted == 1
    await pool.close()


async def test_a_connection_that_the_server_ends_is_not_used_again(upstream: MockUpstream) -> None:
    """`connection: close` is honoured."""
    upstream.script = Script(closes_connection=True)
    pool = make_pool(upstream)
    for _ in range(2):
        heard = Heard()
        pool.send(post(pool), heard)
        assert await heard.ending() is None
        assert heard.is_reused is False
    await pool.close()


async def test_an_answer_without_a_length_ends_with_its_connection(upstream: MockUpstream) -> None:
    """RFC 9112, 6.3: neither content-length nor chunks, so the close is the end and no error."""
    upstream.script = Script(is_chunked=False)
    pool = make_pool(upstream)
    heard = Heard()
    pool.send(post(pool), heard)
    assert await heard.ending() is None
    assert b"[DONE]" in heard.body
    await pool.close()


async def test_requests_beyond_the_limit_wait_their_turn(upstream: MockUpstream) -> None:
    """One connection, three requests: all are answered, one after the other."""
    pool = make_pool(upstream, max_connections=1)
    heard = [Heard() for _ in range(3)]
    for listener in heard:
        pool.send(post(pool), listener)
    assert [await listener.ending() for listener in heard] == [None] * 3
    assert upstream.num_accepted == 1
    await pool.close()


async def test_a_dead_connection_makes_room_for_those_that_wait(upstream: MockUpstream) -> None:
    """Or they would wait for ever, the limit being taken by nobody."""
    upstream.queue(Script(fault=Fault.RESET, fault_at=Point.HEADERS))
    pool = make_pool(upstream, max_connections=1)
    first, second = Heard(), Heard()
    pool.send(post(pool), first)
    pool.send(post(pool), second)
    assert await first.ending() is not None
    assert await second.ending() is None
    await pool.close()


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CLOSE])
@pytest.mark.parametrize("point", list(Point))
async def test_a_server_that_dies_ends_the_exchange_once(
    upstream: MockUpstream, fault: Fault, point: Point
) -> None:
    """Before the headers, before the first token and in mid-stream; with an error each time."""
    upstream.script = Script(fault=fault, fault_at=point)
    pool = make_pool(upstream)
    heard = Heard()
    pool.send(post(pool), heard)
    assert await heard.ending() is not None
    assert heard.status == (None if point is Point.HEADERS else 200)
    await pool.close()


async def test_an_answer_that_is_no_http_is_an_error(upstream: MockUpstream) -> None:
    """And its connection is given up."""
    upstream.script = Script(raw=b"SSH-2.0-OpenSSH_9.2\r\n")
    pool = make_pool(upstream)
    heard = Heard()
    pool.send(post(pool), heard)
    ending = await heard.ending()
    assert ending is not None
    assert ending.startswith("no HTTP")
    await pool.close()


@pytest.mark.parametrize("resets", [False, True])
async def test_an_abort_reaches_the_server(upstream: MockUpstream, resets: bool) -> None:
    """The exchange ends with the error given, once, and the server sees the connection go."""
    upstream.script = Script(ttft_s=5.0)
    pool = make_pool(upstream)
    heard = Heard()
    exchange = pool.send(post(pool), heard)
    await upstream.until(lambda: upstream.requests)
    exchange.abort("enough", resets=resets)
    exchange.abort("again")
    assert await heard.ending() == "enough"
    await upstream.until(lambda: upstream.aborts)
    await pool.close()


async def test_an_abort_while_waiting_never_sends(upstream: MockUpstream) -> None:
    """A request that had no connection yet is taken out of the line, and those behind it move up."""
    upstream.queue(Script(ttft_s=0.05))
    pool = make_pool(upstream, max_connections=1)
    heard = [Heard() for _ in range(3)]
    exchanges = [pool.send(post(pool), listener) for listener in heard]
    exchanges[1].abort("enough")
    assert [await listener.ending() for listener in heard] == [None, "enough", None]
    assert len(upstream.requests) == 2
    await pool.close()


async def test_a_refused_connection_is_an_error() -> None:
    """Nobody listens: each request ends by itself, those that wait for one connection too."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        origin = Origin(host="127.0.0.1", port=taken.getsockname()[1])
        pool = ConnectionPool(origin, max_connections=1, loop=asyncio.get_running_loop())
        heard = [Heard() for _ in range(3)]
        for listener in heard:
            pool.send(post(pool), listener)
        endings = [await listener.ending() for listener in heard]
    assert all(ending is not None and ending.startswith("cannot connect") for ending in endings)
    await pool.close()


async def test_closing_ends_what_is_under_way(upstream: MockUpstream) -> None:
    """Both the exchange that runs and the one that waits for its connection."""
    upstream.script = Script(ttft_s=5.0)
    pool = make_pool(upstream, max_connections=1)
    heard = [Heard(), Heard()]
    for listener in heard:
        pool.send(post(pool), listener)
    await upstream.until(lambda: upstream.requests)
    await pool.close()
    assert all([await listener.ending() is not None for listener in heard])


async def test_fetch_gets_a_page_or_says_why_not(upstream: MockUpstream) -> None:
    """Any status is an answer; a server that takes too long, or is not there, is none."""
    assert (await fetch(f"{upstream.url}/v1/models", timeout_s=5)).status == 200
    assert (await fetch(f"{upstream.url}/nowhere?x=1", timeout_s=5)).status == 404
    assert upstream.requests[-1].path == "/nowhere?x=1"
    upstream.is_reading = False
    with pytest.raises(FetchError, match="within"):
        await fetch(f"{upstream.url}/v1/models", timeout_s=0.05)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://localhost/v1", "localhost:80"),
        ("https://example.org", "example.org:443"),
        ("http://[::1]:9", "[::1]:9"),
    ],
)
def test_origins_are_read_off_urls(url: str, authority: str) -> None:
    """Ports default by scheme; IPv6 keeps its brackets."""
    assert Origin.parse(url).authority == authority


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_url_is_refused(url: str) -> None:
    """With a ValueError, which the commands print."""
    with pytest.raises(ValueError, match=r"URL|[Pp]ort"):
        Origin.parse(url)
