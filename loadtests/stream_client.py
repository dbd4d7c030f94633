"""A chat client that writes down when things happened: one request in, one `Timeline` out.

Knows the OpenAI chat protocol as far as that takes: which events carry output, where the usage stands, and
what a complete answer looks like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import orjson

from loadtests.alarms import Alarms
from loadtests.event_stream import EventStream
from loadtests.http_client import ConnectionPool, Exchange, Origin
from loadtests.timeline import Timeline

CHAT_PATH = "/v1/chat/completions"


class Moment(Enum):
    """What a caller may be told of while a request runs."""

    SENT = auto()
    HEADERS = auto()
    TOKEN = auto()
    """Once for every event with output."""


def _ignore(moment: Moment) -> None:
    pass


class ChatClient:
    """Sends chat requests to one server. `send` returns at once and `on_end` is called exactly once."""

    def __init__(
        self,
        url: str,
        *,
        alarms: Alarms,
        max_connections: int,
        timeout_s: float,
        api_key: str | None = None,
    ) -> None:
        self._alarms = alarms
        self._timeout_s = timeout_s
        self._headers = {
            "content-type": "application/json",
            "accept": "*/*",
            "user-agent": "tierwise-loadtests",
        }
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._pool = ConnectionPool(
            Origin.parse(url), max_connections=max_connections, loop=asyncio.get_running_loop()
        )

    def request(self, body: bytes) -> bytes:
        """The bytes of a chat request; render once, send often."""
        return self._pool.origin.request("POST", CHAT_PATH, headers=self._headers, body=body)

    def send(
        self,
        request: bytes,
        *,
        scheduled_s: float,
        is_streaming: bool,
        on_end: Callable[[Timeline], None],
        on_moment: Callable[[Moment], None] = _ignore,
    ) -> Exchange:
        """Send what `request` rendered. `Exchange.abort` breaks it off; its error stands in the timeline."""
        recorder = _Recorder(
            scheduled_s=scheduled_s, is_streaming=is_streaming, on_end=on_end, on_moment=on_moment
        )
        exchange = self._pool.send(request, recorder)
        recorder.deadline = self._alarms.call_at(
            scheduled_s + self._timeout_s,
            lambda: exchange.abort(f"no complete answer within {self._timeout_s:g} s"),
        )
        return exchange

    async def close(self) -> None:
        """Close the connections; requests under way end with an error."""
        await self._pool.close()


def into(ended: asyncio.Future[Timeline]) -> Callable[[Timeline], None]:
    """An `on_end` for whoever awaits a future; where the wait was cancelled, nobody is told."""

    def on_end(timeline: Timeline) -> None:
        if not ended.done():
            ended.set_result(timeline)

    return on_end


class _Recorder:
    """The listener that becomes a `Timeline`."""

    def __init__(
        self,
        *,
        scheduled_s: float,
        is_streaming: bool,
        on_end: Callable[[Timeline], None],
        on_moment: Callable[[Moment], None],
    ) -> None:
        self._scheduled_s = scheduled_s
        self._is_streaming = is_streaming
        self._report_end = on_end
        self._report_moment = on_moment
        self._sent_s: float | None = None
        self._is_reused_connection = False
        self._headers_s: float | None = None
        self._status: int | None = None
        self._tier: str | None = None
        self._request_id: str | None = None
        self._pieces: list[str] = []
        self._events = EventStream()
        self._body = b""
        self._token_times_s: list[float] = []
        self._num_output_tokens: int | None = None
        self._is_done = False
        self._error: str | None = None
        self.deadline: Any = None

    def on_sent(self, now_s: float, *, is_reused_connection: bool) -> None:
        self._sent_s = now_s
        self._is_reused_connection = is_reused_connection
        self._report_moment(Moment.SENT)

    def on_headers(self, status: int, headers: dict[bytes, bytes], now_s: float) -> None:
        self._headers_s = now_s
        self._status = status
        self._tier = _text_of(headers, b"x-tierwise-tier")
        self._request_id = _text_of(headers, b"x-request-id")
        self._report_moment(Moment.HEADERS)

    def on_body(self, data: bytes, now_s: float) -> None:
        if not self._is_streaming or self._status != 200:
            self._body += data
            return
        for event in self._events.feed(data):
            self._on_event(event, now_s)

    def on_end(self, error: str | None, now_s: float) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self._report_end(
            Timeline(
                scheduled_s=self._scheduled_s,
                is_streaming=self._is_streaming,
                sent_s=self._sent_s,
                is_reused_connection=self._is_reused_connection,
                headers_s=self._headers_s,
                token_times_s=tuple(self._token_times_s),
                ended_s=now_s,
                status=self._status,
                error=error or self._fault(),
                tier=self._tier,
                num_output_tokens=self._num_output_tokens,
                request_id=self._request_id,
                text="".join(self._pieces),
            )
        )

    def _on_event(self, event: bytes, now_s: float) -> None:
        if event == b"[DONE]":
            self._is_done = True
            return
        try:
            chunk = orjson.loads(event)
        except orjson.JSONDecodeError:
            self._error = "an event of the stream is no JSON"
            return
        if "error" in chunk:
            self._error = f"the stream ended with an error: {_error_message(chunk)}"
        if chunk.get("usage"):
            self._num_output_tokens = chunk["usage"].get("completion_tokens")
        choices = chunk.get("choices", ())
        if any(map(_has_output, choices)):
            self._pieces += [_said(choice, "delta") for choice in choices if not choice.get("index")]
            self._token_times_s.append(now_s)
            self._report_moment(Moment.TOKEN)

    def _fault(self) -> str | None:
        """Why an answer that came to its end is still no answer."""
        if self._status != 200:
            return f"status {self._status}: {_error_message_of(self._body)}"
        if self._error is not None:
            return self._error
        if self._is_streaming:
            return None if self._is_done else "the stream ended without [DONE]"
        try:
            answer = orjson.loads(self._body)
        except orjson.JSONDecodeError:
            return "the answer is no JSON"
        if not answer.get("choices"):
            return "the answer has no choices"
        self._pieces.append(_said(answer["choices"][0], "message"))
        self._num_output_tokens = (answer.get("usage") or {}).get("completion_tokens")
        return None


def _has_output(choice: dict[str, Any]) -> bool:
    """Whether a chunk's choice carries text, reasoning or a tool call. The role alone is no output."""
    delta = choice.get("delta") or {}
    return any(value for name, value in delta.items() if name != "role")


def _said(choice: dict[str, Any], where: str) -> str:
    return (choice.get(where) or {}).get("content") or ""


def _text_of(headers: dict[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _error_message(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message)[:200]


def _error_message_of(body: bytes) -> str:
    try:
        return _error_message(orjson.loads(body))
    except orjson.JSONDecodeError:
        return body[:200].decode(errors="replace")
