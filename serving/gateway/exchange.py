"""One HTTP exchange on the gateway's side: reads the body, watches for the client's departure, sends the answer.

Plain ASGI, because a framework's response object exists only once its content does, and the client may leave before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

from serving.gateway.errors import ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

BODY_TIMEOUT_S: Final = 60.0
"""How long a client may take to send its request."""


class ClientDisconnectedError(Exception):
    """The client went away before its answer was complete. A way to finish, not a failure."""


class Exchange:
    """Request and response of one ASGI call."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.status: int | None = None
        """The status sent; None while no byte of an answer has left."""
        self._receive = receive
        self._send = send

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
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @asynccontextmanager
    async def cancelled_on_disconnect(self) -> AsyncIterator[None]:
        """Cancel the block when the client leaves. To be entered once the body has been read.

        Raises:
            ClientDisconnectedError: it left, and what the block was doing has been cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        has_left = False

        async def watch() -> None:
            nonlocal has_left
            while (await self._receive())["type"] != "http.disconnect":
                pass
            has_left = True
            task.cancel()

        watcher = asyncio.create_task(watch())
        try:
            yield
        except asyncio.CancelledError:
            if has_left and task.uncancel() == 0:
                raise ClientDisconnectedError from None
            raise
        finally:
            watcher.cancel()

    async def start(self, status: int, headers: list[Header]) -> None:
        """Send status and headers: from here on the answer is committed."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, body: bytes, *, is_last: bool = False) -> None:
        """Send a piece of the body; waits while the client reads more slowly than it is sent."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})

    async def respond(self, status: int, body: bytes, headers: list[Header]) -> None:
        """Send a whole answer of JSON."""
        length = (b"content-length", b"%d" % len(body))
        await self.start(status, [(b"content-type", b"application/json"), length, *headers])
        await self.send(body, is_last=True)


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        413,
        f"The request body is larger than {max_bytes} bytes, which [gateway] max_body_bytes allows.",
        code="request_too_large",
    )
