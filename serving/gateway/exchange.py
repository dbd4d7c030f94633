"""One HTTP exchange on the gateway's side: reads the body, watches for the client's departure, sends the answer.

Plain ASGI, because a framework's response object exists only once its content does, and the client may leave before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from serving.gateway.answer_headers import Header
from serving.gateway.errors import ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_TIMEOUT_S: Final = 60.0
"""How long a client may take to send its request."""
CLIENT_STALL_S: Final = 30.0
"""A client that takes nothing of its answer for so long is given up, and what works for it is freed."""
LINGER_S: Final = 2.0
"""How long the rest of a refused body is taken in, so that the refusal reaches a client that is still sending."""


class ClientDisconnectedError(Exception):
    """The client went away before its answer was complete. A way to finish, not a failure."""

    def __init__(self, code: str = "client_disconnected") -> None:
        super().__init__(code)
        self.code = code
        """`client_disconnected`, or `client_stalled` for one that stayed and took nothing."""


class Exchange:
    """Request and response of one ASGI call."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.status: int | None = None
        """The status sent; None while no byte of an answer has left."""
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._has_body = False
        self.has_ended = False
        """Whether the whole answer has been sent."""
        self.overhear: Callable[[bytes], object] | None = None
        """Told every piece of the body that was sent."""
        self._sending_since: float | None = None
        self._departure: ClientDisconnectedError | None = None
        self._stall: asyncio.TimerHandle

    @property
    def is_committed(self) -> bool:
        """Whether the answer has begun, so that neither its status nor its arm can change any more."""
        return self.status is not None

    async def read_body(self, max_bytes: int) -> bytes:
        """The request's body.

        Raises:
            ApiError: 413 where it is longer than `max_bytes`, 408 where it does not come.
            ClientDisconnectedError: the client left.
        """
        if int(self.headers.get("content-length", 0)) > max_bytes:
            raise _too_large(max_bytes)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await self._read(max_bytes)
        except TimeoutError:
            raise ApiError(408, "The request body did not arrive in time.", code="request_timeout") from None

    async def _read(self, max_bytes: int) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnectedError
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(max_bytes)
            chunks.append(chunk)
            if not message.get("more_body", False):
                self._has_body = True
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @asynccontextmanager
    async def cancelled_on_disconnect(self) -> AsyncIterator[None]:
        """Cancel the block when the client leaves, or takes nothing for `CLIENT_STALL_S`. After the body has been read.

        Raises:
            ClientDisconnectedError: it did, and what the block was doing has been cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        watcher = self._loop.create_task(self._watch(task))
        self._stall = self._loop.call_later(CLIENT_STALL_S, self._look_for_stall, task)
        try:
            yield
        except asyncio.CancelledError:
            if self._departure is not None and task.uncancel() == 0:
                raise self._departure from None
            raise
        finally:
            watcher.cancel()
            self._stall.cancel()

    async def _watch(self, task: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.has_ended:  # servers report the end of an exchange as if the client had left
            self._depart(task, "client_disconnected")

    def _look_for_stall(self, task: asyncio.Task[Any]) -> None:
        """Look again when the piece that is being sent now, or one that would begin now, has taken too long."""
        now = self._loop.time()
        since = now if self._sending_since is None else self._sending_since
        if now - since >= CLIENT_STALL_S:
            self._depart(task, "client_stalled")
        else:
            self._stall = self._loop.call_at(since + CLIENT_STALL_S, self._look_for_stall, task)

    def _depart(self, task: asyncio.Task[Any], code: str) -> None:
        if self._departure is None:
            self._departure = ClientDisconnectedError(code)
            task.cancel()

    async def start(self, status: int, headers: list[Header]) -> None:
        """Send status and headers: from here on the answer is committed."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, body: bytes, *, is_last: bool = False) -> None:
        """Send a piece of the body; waits while the client reads more slowly than it is sent."""
        self.has_ended = is_last
        self._sending_since = self._loop.time()
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
        self._sending_since = None
        if self.overhear is not None:
            self.overhear(body)

    async def conclude(self, body: bytes) -> None:
        """Send the last piece, unless the client takes nothing for `CLIENT_STALL_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLIENT_STALL_S):
                await self.send(body, is_last=True)

    async def respond(self, status: int, body: bytes, headers: list[Header]) -> None:
        """Send a whole answer of JSON; one to a request that was not read to its end ends the connection."""
        length = (b"content-length", b"%d" % len(body))
        headers = [(b"content-type", b"application/json"), length, *headers]
        if self._has_body:
            await self.start(status, headers)
            return await self.send(body, is_last=True)
        await self.start(status, [*headers, (b"connection", b"close")])
        await self.send(body)
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._skip_body()
        return await self.send(b"", is_last=True)

    async def _skip_body(self) -> None:
        """A connection that is closed while the client sends is reset, and a reset may overtake the answer."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        413,
        f"The request body is larger than {max_bytes} bytes, which [gateway] max_body_bytes allows.",
        code="request_too_large",
    )
