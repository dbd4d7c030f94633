"""HTTP to any OpenAI-compatible server: pooled connections, four deadlines, bytes as they come."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Any, Final, Self

import aiohttp
import orjson
from yarl import URL

from serving.engines.base import Endpoint
from serving.upstream.deadlines import Deadlines
from serving.upstream.dispatch import Carried, Dispatch, Request, StaleConnectionError
from serving.upstream.errors import ConnectError, ProtocolError
from serving.upstream.failures import BOUNDARY_ERRORS, as_upstream_error
from serving.upstream.headers import request_headers
from serving.upstream.response import UpstreamResponse

KEEP_ALIVE_S: Final = 4.0
"""How long an idle connection is kept. llama.cpp's server and uvicorn (vLLM) close theirs after five seconds."""
READ_BUFFER_BYTES: Final = 2**16
"""Twice this much of a stream is held for a client that reads slowly; then the replica has to wait."""
MAX_JSON_BYTES: Final = 2**22
NO_TIMEOUT: Final = aiohttp.ClientTimeout()
"""Nothing is aiohttp's to time."""
_LARGE_BODY_BYTES: Final = 2**20


class UpstreamClient:
    """All connections to all replicas. To be entered inside the event loop that it serves."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._carried: Carried = Carried()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=Request,
            read_bufsize=READ_BUFFER_BYTES,
            trust_env=False,  # a proxy named in the environment must not see prompts by accident
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def post(
        self,
        endpoint: Endpoint,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        arrived_at: float,
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Send `body` and wait for status and headers, whatever the status.

        Leaving the block before the body was read to its end closes the connection, by which an engine knows that
        it may stop.

        Args:
            headers: of the client's request; few of them go upstream (`headers.FORWARDED`).
            arrived_at: when the client's request came, on this client's clock.

        Raises:
            UpstreamError: there is no answer. Reading the body raises it too.
        """
        return self._exchange("POST", endpoint, path, body, headers, deadlines, arrived_at)

    async def get_json(self, endpoint: Endpoint, path: str, *, timeout_s: float = 5.0) -> Any:
        """The parsed answer to a GET, for probes.

        Raises:
            ProtocolError: the status is not 2xx, or the body is no JSON.
            UpstreamError: there is no answer within `timeout_s`.
        """
        deadlines = Deadlines(
            connect_s=timeout_s, first_token_s=timeout_s, idle_s=timeout_s, total_s=timeout_s
        )
        async with self._exchange("GET", endpoint, path, None, {}, deadlines, self._clock()) as response:
            body = await response.read(MAX_JSON_BYTES)
            if not 200 <= response.status < 300:
                raise ProtocolError(f"the upstream answered {response.status}")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise ProtocolError("the upstream's answer is no JSON") from None

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        endpoint: Endpoint,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        arrived_at: float,
    ) -> AsyncIterator[UpstreamResponse]:
        url, sent_headers = _url(endpoint.url, path), request_headers(headers, endpoint.api_key)
        if not endpoint.keeps_connections:
            sent_headers["Connection"] = "close"
        while True:
            dispatch = Dispatch(deadlines, arrived_at=arrived_at, clock=self._clock, carried=self._carried)
            try:
                try:
                    response = await self._send(method, url, body, sent_headers, dispatch)
                except StaleConnectionError:
                    continue  # nothing was written to it; it is closed, so that this ends with a new connection
                yield response
                return
            finally:
                dispatch.finish()

    async def _send(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        headers: Mapping[str, str],
        dispatch: Dispatch,
    ) -> UpstreamResponse:
        connecting = dispatch.connecting()
        # aiohttp writes large bodies piece by piece only where they are files.
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY_BYTES else body
        try:
            with dispatch:
                async with connecting:
                    response = await self._session.request(
                        method, url, data=data, headers=headers, timeout=NO_TIMEOUT, allow_redirects=False
                    )
        except StaleConnectionError:
            raise
        except BOUNDARY_ERRORS as error:
            raise as_upstream_error(error, dispatch) from error
        dispatch.note_headers(response)
        if 300 <= response.status < 400:
            raise ProtocolError("the upstream redirects; configure the address that it redirects to")
        return UpstreamResponse(response, dispatch)


@lru_cache(maxsize=1024)
def _url(base: str, path: str) -> URL:
    try:
        return URL(base + path)
    except ValueError:
        raise ConnectError("the upstream has an address that is no http(s) URL") from None
