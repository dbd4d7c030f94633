"""The answer of a chat completion as an answer of the Responses API, whole or as its sequence of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from serving.gateway import sse
from serving.gateway.errors import ApiError
from serving.gateway.protocols.base import interrupted
from serving.gateway.protocols.choices import VENDOR_FIELDS, parsed_object, raise_error, usage_of
from serving.gateway.protocols.responses_items import Output
from serving.gateway.protocols.responses_object import EventWriter, ResponseObject, usage_object
from serving.gateway.protocols.token_tap import TokenTap
from serving.ledger.records import Usage

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""`finish_reason` → why the response is incomplete; with any other it is completed."""


class TranslatingReader:
    """Reads one chat completion and tells it as a response.

    The Responses API repeats the whole text at the end of a stream, so this reader keeps it, up to
    `responses_items.MAX_TEXT_CHARS`; everything is sent on as it arrives all the same.

    Args:
        response: the object to fill.
        new_id: makes the ids of items.
        wall_clock: Unix time, seconds.
        num_top_logprobs: alternatives that the client asked for; the engine may give more.
        expose_vendor_fields: leave the engine's own members in the last object.
        tap: looks at every event of a stream first.
    """

    def __init__(
        self,
        response: ResponseObject,
        *,
        new_id: Callable[[], str],
        wall_clock: Callable[[], float],
        num_top_logprobs: int = 0,
        expose_vendor_fields: bool = False,
        tap: TokenTap | None = None,
    ) -> None:
        self.usage = Usage()
        self.num_tokens = 0
        self.is_complete = False
        self._response = response
        self._wall_clock = wall_clock
        self._num_top_logprobs = num_top_logprobs
        self._vendor_names = VENDOR_FIELDS if expose_vendor_fields else ()
        self._vendor: dict[str, Any] = {}
        self._tap = tap
        self._output = Output(new_id)
        self._writer = EventWriter()
        self._buffer = sse.EventBuffer()
        self._finish_reason: str | None = None
        self._reasoning_tokens = 0

    def whole(self, body: bytes) -> bytes:
        """The response object."""
        parsed = parsed_object(body)
        raise_error(parsed)
        choices = parsed.get("choices")
        if not choices:
            raise ApiError(502, "The engine's answer has no choices.", code="upstream_protocol_error")
        self._take_envelope(parsed)
        self._finish_reason = choices[0].get("finish_reason")
        self._output.grow(choices[0].get("message") or {}, self._logprobs(choices[0]))
        self.is_complete = True
        return orjson.dumps(self._ended()[1])

    def feed(self, chunk: bytes) -> bytes:
        """The events that these bytes amount to."""
        return b"".join(map(self._event, sse.split(self._buffer.feed(chunk))))

    def finish(self) -> bytes:
        """The last event, where the engine closed the stream without `[DONE]`."""
        rest = self._buffer.flush()
        tail = self._event(rest + b"\n\n") if rest else b""
        if self.is_complete:
            return tail
        if self._finish_reason is None:
            raise interrupted()
        return tail + self._last_event()

    def error_event(self, error: ApiError) -> bytes:
        """`error` and `response.failed`."""
        return self._writer.failure(
            error, self._response.with_members({"output": self._output.values("incomplete")})
        )

    def _event(self, event: bytes) -> bytes:
        data = sse.data_of(event)
        if not data:
            return event  # a comment: the engine's keep-alive
        if data == b"[DONE]":
            return b"" if self.is_complete else self._last_event()
        parsed = parsed_object(data)
        raise_error(parsed)
        if self._tap is not None:
            self._tap.take(parsed)
        told = b"" if self._writer.next_number else self._first_events(parsed)
        self._take_envelope(parsed)
        for choice in parsed.get("choices") or ():
            told += self._choice_events(choice)
        return told

    def _first_events(self, parsed: Mapping[str, Any]) -> bytes:
        self._response.keep({"model": parsed.get("model")})
        response = {"response": self._response.with_members({})}
        return self._writer.write_all([("response.created", response), ("response.in_progress", response)])

    def _choice_events(self, choice: Mapping[str, Any]) -> bytes:
        events = self._output.grow(choice.get("delta") or {}, self._logprobs(choice))
        self.num_tokens += bool(events)
        if choice.get("finish_reason"):
            self._finish_reason = choice["finish_reason"]
            events += self._output.close("incomplete" if self._finish_reason in _INCOMPLETE else "completed")
        return self._writer.write_all(events)

    def _last_event(self) -> bytes:
        self.is_complete = True
        kind, response = self._ended()
        return self._writer.write_all(self._output.close("completed")) + self._writer.write(
            kind, {"response": response}
        )

    def _take_envelope(self, parsed: Mapping[str, Any]) -> None:
        self._response.keep({"model": parsed.get("model")})
        self._vendor |= {name: parsed[name] for name in self._vendor_names if name in parsed}
        if isinstance(usage := parsed.get("usage"), dict):
            self.usage = usage_of(usage, parsed.get("timings"))
            details = usage.get("completion_tokens_details") or {}
            self._reasoning_tokens = details.get("reasoning_tokens") or 0

    def _ended(self) -> tuple[str, dict[str, Any]]:
        """The event that ends the stream, and the response object as it is then."""
        reason = _INCOMPLETE.get(self._finish_reason or "")
        status = "completed" if reason is None else "incomplete"
        members = {
            "status": status,
            "output": self._output.values(status),
            "usage": usage_object(self.usage, self._reasoning_tokens),
            "incomplete_details": {"reason": reason} if reason else None,
            "completed_at": int(self._wall_clock()) if reason is None else None,
        }
        return f"response.{status}", self._response.with_members(members | self._vendor)

    def _logprobs(self, choice: Mapping[str, Any]) -> list[dict[str, Any]]:
        content = (choice.get("logprobs") or {}).get("content") or ()
        return [self._logprob(entry) for entry in content]

    def _logprob(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        top = (entry.get("top_logprobs") or ())[: self._num_top_logprobs]
        return _token(entry) | {"top_logprobs": [_token(other) for other in top]}


def _token(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": entry["token"], "bytes": entry.get("bytes") or [], "logprob": entry["logprob"]}
