"""Answers of an engine that has a Responses API of its own: relayed, and completed where they fall short of OpenAI's.

llama.cpp's events lack sequence numbers, indexes and most of the `response` object, on all of which OpenAI's typed
clients rely, so each of its events is read and written anew. Those of an engine that numbers them are relayed as bytes
but for the few that hold a whole response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from serving.gateway import sse
from serving.gateway.errors import ApiError
from serving.gateway.protocols.base import interrupted
from serving.gateway.protocols.choices import VENDOR_FIELDS, parsed_object, raise_error
from serving.gateway.protocols.responses_object import EventWriter, ResponseObject
from serving.ledger.records import Usage

_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_MARKED = re.compile(
    rb'"response":\s*\{|"error"|' + b"|".join(b'"%s":' % name.encode() for name in VENDOR_FIELDS)
)
_DELTA = re.compile(rb'"type":\s*"response\.[a-z_.]+\.delta"')
_SEQUENCE_NUMBER = re.compile(rb'"sequence_number":\s*(\d+)')


class ResponsesReader:
    """Reads one response.

    Args:
        response: what the engine leaves out of its own.
        max_output_tokens: the client's, by which an answer that was cut off is known from an engine that does not say.
        wall_clock: Unix time, seconds.
        expose_vendor_fields: leave the engine's own members in.
    """

    def __init__(
        self,
        response: ResponseObject,
        *,
        max_output_tokens: int | None,
        wall_clock: Callable[[], float],
        expose_vendor_fields: bool = False,
    ) -> None:
        self.usage = Usage()
        self.num_tokens = 0
        self.is_complete = False
        self._response = response
        self._max_output_tokens = max_output_tokens
        self._wall_clock = wall_clock
        self._vendor = () if expose_vendor_fields else VENDOR_FIELDS
        self._buffer = sse.EventBuffer()
        self._last_relayed = b""
        self._is_numbered = False
        self._writer = EventWriter()
        self._places = _Places()

    def whole(self, body: bytes) -> bytes:
        """The response object.

        Raises:
            ApiError: the engine says that it failed.
        """
        parsed = parsed_object(body)
        _raise_failure(parsed)
        self.is_complete = True
        return orjson.dumps(self._completed(parsed))

    def feed(self, chunk: bytes) -> bytes:
        """The events that these bytes complete."""
        events = self._buffer.feed(chunk)
        if not events:
            return b""
        if self._is_numbered and not _MARKED.search(events):
            self.num_tokens += len(_DELTA.findall(events))
            self._last_relayed = events
            return events
        return b"".join(map(self._event, sse.split(events)))

    def finish(self) -> bytes:
        """Nothing for a stream that ended well."""
        rest = self._buffer.flush()
        tail = self._event(rest + b"\n\n") if rest else b""
        if not self.is_complete:
            raise interrupted()
        return tail

    def error_event(self, error: ApiError) -> bytes:
        """`error` and `response.failed`, numbered after what has been relayed."""
        if numbers := _SEQUENCE_NUMBER.findall(self._last_relayed):
            self._writer.next_number = int(numbers[-1]) + 1
        return self._writer.failure(error, self._response.with_members({}))

    def _event(self, event: bytes) -> bytes:
        data = sse.data_of(event)
        if not data or data == b"[DONE]":
            return event
        parsed = parsed_object(data)
        kind = str(parsed.get("type"))
        if kind == "error" or parsed.get("error"):  # flat as OpenAI has it, or llama.cpp's envelope
            _raise_failure({"error": parsed.get("error") or parsed})
        self.num_tokens += kind.endswith(".delta")
        self._is_numbered = "sequence_number" in parsed
        is_changed = self._strip(parsed)
        if isinstance(parsed.get("response"), dict):
            kind = self._take_response(parsed, kind)
        elif self._is_numbered and not is_changed:
            self._last_relayed = event
            return event
        if not self._is_numbered:
            self._places.complete(kind, parsed)
            return self._writer.write(kind, parsed)
        self._last_relayed = event
        return sse.event(orjson.dumps(parsed), kind)

    def _take_response(self, parsed: dict[str, Any], kind: str) -> str:
        """Complete the response that an event holds; gives the event's type, which an answer cut off may change."""
        _raise_failure(parsed["response"])
        is_end = kind in _ENDS
        parsed["response"] = self._completed(parsed["response"])
        if is_end:
            self.is_complete = True
            kind = parsed["type"] = f"response.{parsed['response']['status']}"
        return kind

    def _completed(self, told: dict[str, Any]) -> dict[str, Any]:
        self._response.keep(told)
        if isinstance(usage := told.get("usage"), dict):
            self.usage = _usage_of(usage)
            input_details = {"cached_tokens": 0, "cache_write_tokens": 0} | (
                usage.get("input_tokens_details") or {}
            )
            output_details = {"reasoning_tokens": 0} | (usage.get("output_tokens_details") or {})
            usage |= {"input_tokens_details": input_details, "output_tokens_details": output_details}
        self._strip(told)
        response = self._response.with_members(told)
        if response["status"] == "completed":
            response.setdefault("completed_at", int(self._wall_clock()))
            if "incomplete_details" not in told and self._is_cut_off():
                response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
                response["completed_at"] = None
        return response

    def _is_cut_off(self) -> bool:
        """Whether the answer is as long as it was allowed to be.

        One that ended by itself on its very last token looks the same, and is the rarer and cheaper mistake.
        """
        limit, length = self._max_output_tokens, self.usage.completion_tokens
        return limit is not None and length is not None and length >= limit

    def _strip(self, parsed: dict[str, Any]) -> bool:
        present = [name for name in self._vendor if name in parsed]
        for name in present:
            del parsed[name]
        return bool(present)


class _Places:
    """Which item and part an event belongs to, for an engine that gives ids and no indexes."""

    def __init__(self) -> None:
        self._num_items = 0
        self._index_by_id: dict[str, int] = {}
        self._num_parts: dict[int, int] = {}

    def complete(self, kind: str, event: dict[str, Any]) -> None:
        """Put in the members that are missing from an event of this type."""
        group, _, what = kind.removeprefix("response.").rpartition(".")
        if group == "output_item":
            self._complete_item(what, event)
        if "item_id" in event:
            self._complete_part(group, what, event)
        if group == "output_text":
            event.setdefault("logprobs", [])

    def _complete_item(self, what: str, event: dict[str, Any]) -> None:
        item = event.get("item") or {}
        if what == "added":
            for name in ("id", "call_id"):
                if isinstance(item.get(name), str):
                    self._index_by_id[item[name]] = self._num_items
            self._num_items += 1
        event.setdefault("output_index", self._index_of(item.get("id") or item.get("call_id")))

    def _complete_part(self, group: str, what: str, event: dict[str, Any]) -> None:
        index = event.setdefault("output_index", self._index_of(event["item_id"]))
        if group == "function_call_arguments":
            return
        if group == "content_part":
            if what == "added":
                self._num_parts[index] = self._num_parts.get(index, 0) + 1
            if isinstance(part := event.get("part"), dict) and part.get("type") == "output_text":
                part.setdefault("annotations", [])
        event.setdefault("content_index", max(0, self._num_parts.get(index, 1) - 1))

    def _index_of(self, item_id: Any) -> int:
        return self._index_by_id.get(item_id, max(0, self._num_items - 1))


def _usage_of(usage: Mapping[str, Any]) -> Usage:
    details = usage.get("input_tokens_details") or {}
    return Usage(
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
        cached_tokens=details.get("cached_tokens"),
    )


def _raise_failure(told: Mapping[str, Any]) -> None:
    raise_error(told)
    if told.get("status") == "failed":
        raise ApiError(502, "The engine failed to answer.", code="upstream_error")
