"""A whole answer put together from a stream: where whole answers count one choice alone, or the beginning is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from serving.gateway import sse
from serving.gateway.errors import ApiError
from serving.gateway.protocols.base import AnswerReader
from serving.ledger.records import Usage

_OBJECTS: Final = {"chat.completion.chunk": "chat.completion"}
_TEXTS: Final = ("content", "reasoning_content", "reasoning", "refusal")


class AssemblingReader:
    """Reads the stream that was asked of the engine in place of a whole answer.

    Args:
        events: reads the stream as it would for a client that wants its usage.
        told: what becomes of the whole, where the client's protocol is another.
    """

    def __init__(self, events: AnswerReader, *, told: Callable[[bytes], bytes] | None = None) -> None:
        self.usage = Usage()
        self.num_tokens = 0
        self.is_complete = False
        self._events = events
        self._told = told
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def whole(self, body: bytes) -> bytes:
        """The answer that the stream amounts to, of which `body` is what has not been fed yet."""
        self.feed(body)
        return self.finish()

    def feed(self, chunk: bytes) -> bytes:
        """Nothing: the client's answer does not stream."""
        self._absorb(self._events.feed(chunk))
        return b""

    def finish(self) -> bytes:
        """The whole answer."""
        self._absorb(self._events.finish())
        self._answer["choices"] = [choice for _, choice in sorted(self._choices.items())]
        whole = orjson.dumps(self._answer)
        return whole if self._told is None else self._told(whole)

    def error_event(self, error: ApiError) -> bytes:
        """The client's answer does not stream."""
        return error.body

    def _absorb(self, events: bytes) -> None:
        self.usage, self.num_tokens = self._events.usage, self._events.num_tokens
        self.is_complete = self._events.is_complete
        for event in sse.split(events):
            data = sse.data_of(event)
            if data and data != b"[DONE]":
                self._take(orjson.loads(data))

    def _take(self, chunk: dict[str, Any]) -> None:
        for delta in chunk.pop("choices", None) or ():
            choice = self._choices.setdefault(delta.get("index", 0), {"index": delta.get("index", 0)})
            _grow_choice(choice, delta)
        self._answer |= {name: value for name, value in chunk.items() if value is not None}
        self._answer["object"] = _OBJECTS.get(self._answer.get("object", ""), "text_completion")


def _grow_choice(choice: dict[str, Any], chunk: Mapping[str, Any]) -> None:
    """Add one chunk of a choice, of chat or of text completions, to what it has become so far."""
    if "text" in chunk:
        choice["text"] = choice.get("text", "") + (chunk["text"] or "")
    if "delta" in chunk:
        _grow_message(
            choice.setdefault("message", {"role": "assistant", "content": None}), chunk["delta"] or {}
        )
    if isinstance(logprobs := chunk.get("logprobs"), dict):
        choice["logprobs"] = _joined(choice.get("logprobs") or {}, logprobs)
    else:
        choice.setdefault("logprobs", None)
    choice["finish_reason"] = chunk.get("finish_reason") or choice.get("finish_reason")


def _grow_message(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name in _TEXTS:
        if delta.get(name) is not None:
            message[name] = (message.get(name) or "") + delta[name]
    for position, call in enumerate(delta.get("tool_calls") or ()):
        calls = message.setdefault("tool_calls", [])
        if call.get("index", position) >= len(calls):
            calls.append(
                {"id": call.get("id"), "type": "function", "function": {"name": "", "arguments": ""}}
            )
        function = call.get("function") or {}
        grown = calls[call.get("index", position)]["function"]
        grown["name"] += function.get("name") or ""
        grown["arguments"] += function.get("arguments") or ""


def _joined(logprobs: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Log-probabilities of two stretches of one choice: every member is a list over tokens, or null."""
    return {
        name: [*(logprobs.get(name) or ()), *values] if isinstance(values, list) else values
        for name, values in more.items()
    }
