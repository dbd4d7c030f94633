"""One GET, awaited: for probes and metrics pages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loadtests.http_client import ConnectionPool, Origin


@dataclass(slots=True)
class Response:
    """A whole answer."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


class FetchError(Exception):
    """The server gave no answer: it refused the connection, broke off, or took too long."""


class _Collector:
    """The listener of `fetch`."""

    def __init__(self, ended: asyncio.Future[Response]) -> None:
        self._ended = ended
        self._response = Response()

    def on_sent(self, now_s: float, *, is_reused_connection: bool) -> None:
        pass

    def on_headers(self, status: int, headers: dict[bytes, bytes], now_s: float) -> None:
        self._response.status, self._response.headers = status, headers

    def on_body(self, data: bytes, now_s: float) -> None:
        self._response.body += data

    def on_end(self, error: str | None, now_s: float) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(self._response)
        else:
            self._ended.set_exception(FetchError(error))


async def fetch(url: str, *, timeout_s: float, headers: dict[str, str] | None = None) -> Response:
    """GET `url` on a connection of its own, whatever the status.

    Raises:
        FetchError: no answer within `timeout_s`.
    """
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    pool = ConnectionPool(Origin.parse(url), max_connections=1, loop=loop)
    ended: asyncio.Future[Response] = loop.create_future()
    pool.send(
        pool.origin.request("GET", path, headers={"connection": "close", **(headers or {})}),
        _Collector(ended),
    )
    try:
        return await asyncio.wait_for(ended, timeout_s)
    except TimeoutError:
        raise FetchError(f"no answer within {timeout_s:g} s") from None
    finally:
        await pool.close()
