"""A replica's answer, as bytes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import aiohttp

from serving.upstream.dispatch import Dispatch
from serving.upstream.errors import ProtocolError
from serving.upstream.failures import BOUNDARY_ERRORS, as_upstream_error
from serving.upstream.headers import retry_after_s


class UpstreamResponse:
    """Status, headers, and a body that is read once: by `read`, or piece by piece by `chunks`."""

    def __init__(self, response: aiohttp.ClientResponse, dispatch: Dispatch) -> None:
        self.status = response.status
        self.headers = response.headers
        self.content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        """Without parameters; empty where absent."""
        self._content = response.content
        self._dispatch = dispatch
        self._watchdog = dispatch.watchdog

    @property
    def retry_after_s(self) -> float | None:
        """When to come again, where the upstream says so."""
        return retry_after_s(self.headers, time.time())

    async def read(self, max_bytes: int) -> bytes:
        """The whole body.

        Raises:
            ProtocolError: it is longer than `max_bytes`.
            UpstreamError: it did not come whole, or not in time.
        """
        chunks: list[bytes] = []
        size = 0
        async for chunk in self:
            size += len(chunk)
            if size > max_bytes:
                raise ProtocolError(f"the answer is larger than {max_bytes} bytes")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body's bytes as they arrive, cut where the network cut them.

        Raises:
            UpstreamError: it did not come whole, or not in time.
        """
        return self

    # An iterator and no generator: one that is left half-way would have to be closed by a task of its own.
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self._watchdog.wait_begins()
        try:
            chunk = await self._content.readany()
        except (*BOUNDARY_ERRORS, RuntimeError) as error:  # RuntimeError: it was closed while nobody read
            raise as_upstream_error(error, self._dispatch) from error
        if not chunk:
            raise StopAsyncIteration
        self._watchdog.wait_ends()
        return chunk
