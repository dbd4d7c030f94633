"""A light HTTP/1.1 client: callbacks on a raw asyncio protocol, to cost little beside what it measures.

One origin, keep-alive connections, one exchange at a time on each; no redirects, no proxies, no retries. What
arrives is stamped when the socket is read, not when some task is scheduled. `loadtests.fetch` is the
awaitable form for the occasional GET.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

import httptools


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a server listens."""

    host: str
    port: int
    is_tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """The origin of an http or https URL.

        Raises:
            ValueError: the URL has another scheme, no host, or a port that is no number.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is no server's URL; write it like http://127.0.0.1:8000")
        is_tls = parts.scheme == "https"
        return cls(host=parts.hostname, port=parts.port or (443 if is_tls else 80), is_tls=is_tls)

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> bytes:
        """A whole request, ready to be written as often as wished."""
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.authority}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines.append(f"content-length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Listener(Protocol):
    """Hears of one exchange. Times are `time.monotonic()`."""

    def on_sent(self, now_s: float, *, is_reused_connection: bool) -> None:
        """The request was handed to the socket."""

    def on_headers(self, status: int, headers: dict[bytes, bytes], now_s: float) -> None:
        """The response began; names are in lower case."""

    def on_body(self, data: bytes, now_s: float) -> None:
        """A piece of the body arrived."""

    def on_end(self, error: str | None, now_s: float) -> None:
        """The exchange is over: once, and nothing follows."""


class Exchange:
    """One request and its answer."""

    __slots__ = ("_connection", "_pool", "listener", "request")

    def __init__(self, pool: ConnectionPool, request: bytes, listener: Listener) -> None:
        self._pool = pool
        self._connection: _Connection | None = None
        self.request = request
        self.listener: Listener | None = listener

    def abort(self, error: str, *, resets: bool = False) -> None:
        """End it now by closing the connection, roughly (RST) where `resets`. Does nothing when it is over."""
        if self.listener is None:
            return
        if self._connection is None:
            self._pool._forget(self)
        else:
            self._connection.drop(resets=resets)
        self._end(error)

    def _end(self, error: str | None) -> None:
        listener, self.listener, self._connection = self.listener, None, None
        if listener is not None:
            listener.on_end(error, time.monotonic())


class ConnectionPool:
    """Keep-alive connections to one origin; the most recently used is used first.

    At `max_connections` further requests wait for one to come free, and their clock runs.
    """

    def __init__(self, origin: Origin, *, max_connections: int, loop: asyncio.AbstractEventLoop) -> None:
        self.origin = origin
        self._max_connections = max_connections
        self.loop = loop
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._waiting: deque[Exchange] = deque()
        self._connecting: set[asyncio.Task[None]] = set()

    def send(self, request: bytes, listener: Listener) -> Exchange:
        """Begin an exchange; never blocks."""
        exchange = Exchange(self, request, listener)
        if self._idle:
            self._idle.pop().begin(exchange, is_reused=True)
        else:
            self._waiting.append(exchange)
            self._connect_if_allowed()
        return exchange

    async def close(self) -> None:
        """Close every connection; exchanges under way end with an error."""
        for task in tuple(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for exchange in tuple(self._waiting):
            exchange.abort("the client closed")
        for connection in tuple(self._open):
            connection.transport.close()
        await asyncio.gather(*(connection.closed for connection in self._open))

    def _connect_if_allowed(self) -> None:
        has_room = len(self._open) + len(self._connecting) < self._max_connections
        if has_room and len(self._waiting) > len(self._connecting):
            task = self.loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        if not task.cancelled():
            self._connect_if_allowed()

    async def _connect(self) -> None:
        context = ssl.create_default_context() if self.origin.is_tls else None
        try:
            await self.loop.create_connection(
                lambda: _Connection(self), self.origin.host, self.origin.port, ssl=context
            )
        except OSError as error:
            if self._waiting:
                self._waiting.popleft()._end(f"cannot connect: {error.strerror or error}")

    def _opened(self, connection: _Connection) -> None:
        self._open.add(connection)
        self._serve(connection, is_reused=False)

    def _serve(self, connection: _Connection, *, is_reused: bool) -> None:
        if self._waiting:
            connection.begin(self._waiting.popleft(), is_reused=is_reused)
        else:
            self._idle.append(connection)

    def _closed(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._connect_if_allowed()

    def _forget(self, exchange: Exchange) -> None:
        if exchange in self._waiting:
            self._waiting.remove(exchange)


class _Connection(asyncio.Protocol):
    """One socket; parses one response after the other."""

    transport: asyncio.Transport

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._exchange: Exchange | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._now_s = 0.0
        self._is_complete = False
        self._keeps_alive = False
        self.closed: asyncio.Future[None] = pool.loop.create_future()

    def begin(self, exchange: Exchange, *, is_reused: bool) -> None:
        self._exchange = exchange
        exchange._connection = self
        self._parser = httptools.HttpResponseParser(self)
        self._headers = {}
        self._is_complete = False
        sent_s = time.monotonic()  # before the write: the server may have read it when that returns
        self.transport.write(exchange.request)
        if exchange.listener is not None:
            exchange.listener.on_sent(sent_s, is_reused_connection=is_reused)

    def drop(self, *, resets: bool) -> None:
        """Close without waiting for what is under way."""
        self._exchange = None
        if resets:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour, not by class
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pool._opened(self)

    def data_received(self, data: bytes) -> None:
        self._now_s = time.monotonic()
        if self._exchange is None:
            self.transport.close()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"no HTTP: {error}")
            return
        if self._is_complete:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)
        self._pool._closed(self)
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            exchange._end(self._error_of_loss(exc))

    def _error_of_loss(self, exc: Exception | None) -> str | None:
        if exc is not None:
            return f"connection lost: {exc}"
        # A response without either header ends with its connection (RFC 9112, 6.3).
        is_framed = bool({b"content-length", b"transfer-encoding"} & self._headers.keys())
        has_headers = bool(self._parser.get_status_code())
        return None if has_headers and not is_framed else "the server closed the connection"

    def _finish(self) -> None:
        exchange, self._exchange = self._exchange, None
        if self._keeps_alive and not self.transport.is_closing():
            self._pool._serve(self, is_reused=True)
        else:
            self.transport.close()
        if exchange is not None:
            exchange._end(None)

    def _fail(self, error: str) -> None:
        exchange, self._exchange = self._exchange, None
        self.transport.abort()
        if exchange is not None:
            exchange._end(error)

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._keeps_alive = self._parser.should_keep_alive()  # asked later, it has forgotten the framing
        if self._exchange is not None and self._exchange.listener is not None:
            status = self._parser.get_status_code()
            self._exchange.listener.on_headers(status, self._headers, self._now_s)

    def on_body(self, data: bytes) -> None:
        if self._exchange is not None and self._exchange.listener is not None:
            self._exchange.listener.on_body(data, self._now_s)

    def on_message_complete(self) -> None:
        self._is_complete = True
