"""How a request gets onto a connection, and what is known of that when it fails.

Whether a lost request may be sent again hangs on one question: can the replica have begun to work on it? aiohttp does
not say, so `Request` notes the moment in which the first byte is handed to the socket. Before that moment the answer
is no, for certain. After it we say yes: a reset does not prove that nothing was read, and neither does a close.

That moment comes too late for a connection which the server closed while it idled, unless somebody looks. So a reused
connection is looked at immediately before anything is written: the kernel knows of a close (the socket is readable)
before the event loop does. What stays is the way of a packet between looking and writing, and connections are kept
for less time than servers keep them (`client.KEEP_ALIVE_S`), so that this way is hardly ever taken.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import cast
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from serving.upstream.connecting import ConnectDeadline
from serving.upstream.deadlines import Deadlines
from serving.upstream.errors import ProtocolError, TotalTimeout, UpstreamError
from serving.upstream.watchdog import Watchdog

_current: ContextVar[Dispatch] = ContextVar("dispatch")

Carried = WeakKeyDictionary[ResponseHandler, "Dispatch | None"]
"""All connections that were used, and the request that each carries now."""


class StaleConnectionError(aiohttp.ClientConnectionError):
    """A kept connection turned out to be closed, and nothing was written to it."""


class Dispatch:
    """One request on its way. Entered, it is the one that this task's `Request` reports to."""

    def __init__(
        self,
        deadlines: Deadlines,
        *,
        arrived_at: float,
        clock: Callable[[], float],
        carried: Carried,
    ) -> None:
        self.watchdog = Watchdog(deadlines, arrived_at=arrived_at, clock=clock)
        self.was_sent = False
        """A byte of it may have reached the replica."""
        self.is_total_nearer = False
        """The total would be over before the deadline for connecting is."""
        self._connect_s = deadlines.connect_s
        self._connecting: ConnectDeadline | None = None
        self._carried = carried
        self._protocol: ResponseHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._response: aiohttp.ClientResponse | None = None

    def __enter__(self) -> Dispatch:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)

    @property
    def had_headers(self) -> bool:
        """Whether status and headers have come."""
        return self._response is not None

    def connecting(self) -> ConnectDeadline:
        """The deadline that runs until there is a connection (`meet`).

        Raises:
            TotalTimeout: no time is left at all.
        """
        left_s = self.watchdog.left_s()
        if left_s <= 0:
            raise TotalTimeout(was_dispatched=False)
        self.is_total_nearer = left_s < self._connect_s
        self._connecting = ConnectDeadline(min(left_s, self._connect_s))
        return self._connecting

    def meet(self, connection: Connection) -> None:
        """Look at the connection that was chosen.

        Raises:
            StaleConnectionError: it was kept, and the server closed it or sent what nobody asked for.
        """
        if self._connecting is not None:
            self._connecting.stop()
        protocol = connection.protocol
        assert protocol is not None
        if protocol not in self._carried:
            if (closed := protocol.closed) is not None:
                closed.add_done_callback(partial(_tell_carried, self._carried, protocol))
        elif protocol.should_close or connection.closed or _is_readable(connection):
            raise StaleConnectionError
        self._carried[protocol] = self
        self._protocol, self._transport = protocol, connection.transport

    def note_sent(self, connection: Connection) -> None:
        """The request is about to be written, unless the connection was closed since `meet`."""
        self.was_sent = not connection.closed
        self.watchdog.start(self._fail)

    def note_headers(self, response: aiohttp.ClientResponse) -> None:
        """Status and headers came."""
        self._response = response

    def note_closed(self) -> None:
        """The connection ended. aiohttp tells the body, save where it was itself that closed, over broken framing."""
        content = self._response.content if self._response is not None else None
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(ProtocolError("the upstream's answer is garbled"))

    def finish(self) -> None:
        """Close the connection at once, unless the answer came whole: then it went back to be reused."""
        self.watchdog.stop()
        if self._protocol is not None and self._carried.get(self._protocol) is self:
            self._carried[self._protocol] = None
        response = self._response
        if response is not None and response.closed:
            return  # whole: by now the connection may carry somebody else's request
        self._abort()
        if response is not None:
            response.close()

    def _fail(self, error: UpstreamError) -> None:
        """Whoever waits for bytes gets the error, and the connection closes, so that the engine stops."""
        waited_for = self._protocol if self._response is None else self._response.content
        if waited_for is not None:
            waited_for.set_exception(error)
        self._abort()

    def _abort(self) -> None:
        # Not `close`, which would first deliver what is left to send: a server that reads no more would hold it.
        if self._transport is not None:
            self._transport.abort()


class Request(aiohttp.ClientRequest):
    """Tells the current `Dispatch` about its connection."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Send; the body is written by a task of its own, through `write_bytes`."""
        _current.get().meet(conn)
        if not self.body:
            _current.get().note_sent(conn)
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        """Write headers and body."""
        _current.get().note_sent(conn)
        await super().write_bytes(writer, conn, content_length)


def _tell_carried(carried: Carried, protocol: ResponseHandler, closed: asyncio.Future[None]) -> None:
    if not closed.cancelled():
        closed.exception()  # seen: what it means for a request, the request hears otherwise
    dispatch = carried.get(protocol)
    if dispatch is not None:
        dispatch.note_closed()


def _is_readable(connection: Connection) -> bool:
    """Whether the kernel holds something for us: a close, a reset, or bytes that no request has asked for."""
    socket = cast(asyncio.Transport, connection.transport).get_extra_info("socket")
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
