"""Answers made of `choices`: chat completions and text completions, whole and streamed.

Events are relayed as the bytes they are. Only those that carry usage, an error, an end, or an engine's own members
are parsed, and found by a search for their names: inside a JSON string a quotation mark is always escaped, so that no
text a model writes can look like one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from serving.gateway import sse
from serving.gateway.errors import OVERLOADED_STATUSES, ApiError, is_failure, overloaded_upstream, rejected
from serving.gateway.protocols.base import interrupted
from serving.ledger.records import Usage

VENDOR_FIELDS: Final = (
    "timings",
    "__verbose",
    "prompt_logprobs",
    "kv_transfer_params",
    "metrics",
    "prompt_token_ids",
)
"""Members that llama.cpp and vLLM add to an answer."""
VENDOR_CHOICE_FIELDS: Final = ("stop_reason", "token_ids")

# All alternatives stand behind one quotation mark: three times as quick as each with its own.
_MARKED = re.compile(
    rb'"(?:usage":\s*\{|finish_reason":\s*"|(?:'
    + b"|".join(name.encode() for name in ("error", *VENDOR_FIELDS, *VENDOR_CHOICE_FIELDS))
    + rb')":)'
)


def _is_plain(events: bytes) -> bool:
    """Whether these are events of which nothing has to be read."""
    return events.startswith(b"data:") and b"[DONE]" not in events and not _MARKED.search(events)


class ChoicesReader:
    """Reads one answer.

    Args:
        wants_usage: the client asked for the usage chunk of a stream (`stream_options.include_usage`).
        wants_chunk_usage: it asked vLLM for the usage so far in each chunk (`stream_options.continuous_usage_stats`).
        num_choices: how many the stream has to finish.
        expose_vendor_fields: leave the engine's own members in.
        service_tier: to be told in every object, or None.
        reshape: changes a parsed object in place before it is sent; where given, every event is parsed.
    """

    def __init__(
        self,
        *,
        wants_usage: bool,
        wants_chunk_usage: bool = False,
        num_choices: int = 1,
        expose_vendor_fields: bool = False,
        service_tier: str | None = None,
        reshape: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.usage = Usage()
        self.num_tokens = 0
        self.is_complete = False
        self._wants_usage = wants_usage
        self._wants_chunk_usage = wants_chunk_usage
        self._num_choices = num_choices
        self._vendor = () if expose_vendor_fields else VENDOR_FIELDS
        self._vendor_choice = () if expose_vendor_fields else VENDOR_CHOICE_FIELDS
        self._service_tier = service_tier
        self._reshape = reshape
        self._parses_all = reshape is not None or service_tier is not None
        self._buffer = sse.EventBuffer()
        self._usage_chunk: dict[str, Any] | None = None
        self._usage_alone: Usage | None = None
        self._usage_by_choice: dict[int, Usage] = {}
        self._num_finished = 0

    def whole(self, body: bytes) -> bytes:
        """The client's body; the engine's bytes where nothing had to be taken out or put in."""
        parsed = parsed_object(body)
        raise_error(parsed)
        if isinstance(usage := parsed.get("usage"), dict):
            self.usage = usage_of(usage, parsed.get("timings"))
        self.is_complete = True
        is_changed = self._strip(parsed)
        if self._reshape is not None:
            self._reshape(parsed)
            is_changed = True
        return orjson.dumps(parsed) if is_changed else body

    def feed(self, chunk: bytes) -> bytes:
        """The events that these bytes complete, as the client is to see them."""
        events = self._buffer.feed(chunk)
        if not events:
            return b""
        if self.num_tokens and not self._parses_all and _is_plain(events):
            self.num_tokens += events.count(b"\n\n") or 1
            return events
        return b"".join(map(self._event, sse.split(events)))

    def finish(self) -> bytes:
        """Nothing for a stream that ended well; the end marker where only that is missing.

        Raises:
            ApiError: a choice is unfinished.
        """
        rest = self._buffer.flush()
        tail = self._event(rest + b"\n\n") if rest else b""
        if self.is_complete:
            return tail
        if self._num_finished < self._num_choices:
            raise interrupted()
        self.is_complete = True
        return tail + self._usage_event() + sse.DONE

    def error_event(self, error: ApiError) -> bytes:
        """`data: {"error": …}`, on which OpenAI's clients raise."""
        return sse.event(error.body)

    def _event(self, event: bytes) -> bytes:
        data = sse.data_of(event)
        if not data:
            return event  # a comment: the engine's keep-alive
        if data == b"[DONE]":
            self.is_complete = True
            return self._usage_event() + event
        parsed = parsed_object(data)
        raise_error(parsed)
        choices = parsed.get("choices") or []
        self.num_tokens += any(_carries_answer(choice) for choice in choices)
        self._num_finished += sum(bool(choice.get("finish_reason")) for choice in choices)
        is_changed = self._take_usage(parsed)
        is_changed |= self._strip(parsed)
        if self._reshape is not None:
            self._reshape(parsed)
            is_changed = True
        if self._usage_chunk is parsed:
            return b""
        return sse.event(orjson.dumps(parsed)) if is_changed else event

    def _take_usage(self, parsed: dict[str, Any]) -> bool:
        """Keep the usage for one chunk at the end, however often it is told.

        llama.cpp sends a chunk of usage for each choice; its text completions tell it in each choice's last chunk, and
        vLLM's in every chunk where asked to, always the sum so far. What a chunk of its own says holds over the rest.
        """
        told = parsed.get("usage")
        if not isinstance(told, dict):
            return False
        usage = usage_of(told, parsed.get("timings"))
        if choices := parsed.get("choices"):
            self._usage_by_choice[choices[0].get("index", 0)] = usage
            self._usage_chunk = self._usage_chunk or parsed | {"choices": []}
            if not self._wants_chunk_usage:
                del parsed["usage"]
        else:
            self._usage_alone = usage if self._usage_alone is None else added(self._usage_alone, usage)
            self._usage_chunk = parsed
        self.usage = self._usage_alone or functools.reduce(added, self._usage_by_choice.values())
        return not self._wants_chunk_usage

    def _usage_event(self) -> bytes:
        chunk, self._usage_chunk = self._usage_chunk, None
        if chunk is None or not self._wants_usage:
            return b""
        completion, prompt = self.usage.completion_tokens or 0, self.usage.prompt_tokens or 0
        chunk["usage"] = chunk["usage"] | {
            "completion_tokens": completion,
            "prompt_tokens": prompt,
            "total_tokens": completion + prompt,
        }
        self._strip(chunk)
        return sse.event(orjson.dumps(chunk))

    def _strip(self, parsed: dict[str, Any]) -> bool:
        is_changed = False
        for name in self._vendor:
            is_changed |= parsed.pop(name, self) is not self
        for choice in parsed.get("choices") or ():
            for name in self._vendor_choice:
                is_changed |= choice.pop(name, self) is not self
        if self._service_tier is not None:
            parsed["service_tier"] = self._service_tier
            is_changed = True
        return is_changed


def usage_of(usage: dict[str, Any], timings: Any = None) -> Usage:
    """OpenAI's `usage` (and llama.cpp's `timings`, which know about drafts) as a `Usage`."""
    details = usage.get("prompt_tokens_details") or {}
    timings = timings if isinstance(timings, dict) else {}
    return Usage(
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        cached_tokens=details.get("cached_tokens"),
        drafted_tokens=timings.get("draft_n"),
        accepted_tokens=timings.get("draft_n_accepted"),
    )


def added(first: Usage, second: Usage) -> Usage:
    """Two usage reports of one request, one for each choice: the prompt counts once, what was generated adds up."""
    if first == Usage():
        return second

    def total(a: int | None, b: int | None) -> int | None:
        return b if a is None else a + (b or 0)

    return Usage(
        prompt_tokens=first.prompt_tokens,
        completion_tokens=total(first.completion_tokens, second.completion_tokens),
        cached_tokens=first.cached_tokens,
        drafted_tokens=total(first.drafted_tokens, second.drafted_tokens),
        accepted_tokens=total(first.accepted_tokens, second.accepted_tokens),
    )


def parsed_object(data: bytes) -> dict[str, Any]:
    """The JSON object that an engine sent.

    Raises:
        ApiError: 502 where it is none.
    """
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ApiError(502, "The engine's answer is not JSON.", code="upstream_protocol_error")
    return parsed


def raise_error(parsed: Mapping[str, Any]) -> None:
    """Raise the error that an engine tells in an object with status 200, where it tells one.

    Its `code` may be the status that it would have had: a client's mistake stays one.
    """
    error = parsed.get("error")
    if not error:
        return
    told = error if isinstance(error, dict) else {"message": str(error)}
    code = told.get("code")
    if isinstance(code, int) and code in OVERLOADED_STATUSES:
        raise overloaded_upstream(code, "chosen")
    if isinstance(code, int) and code >= 400 and not is_failure(code):
        raise rejected(code, told, "The engine refused the request.")
    message = str(told.get("message") or "The engine reported an error.")
    raise ApiError(502, message, code=code if isinstance(code, str) else "upstream_error", should_retry=False)


def _carries_answer(choice: dict[str, Any]) -> bool:
    """Whether a choice's delta holds anything but the role with which a stream opens."""
    if "delta" not in choice:
        return bool(choice.get("text"))
    delta = choice["delta"] or {}
    return any(value not in (None, "", []) for name, value in delta.items() if name != "role")
