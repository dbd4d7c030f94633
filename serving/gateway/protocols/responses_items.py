"""Output items while they grow: their value, and the events that tell of it.

An item keeps its whole text, because the Responses API repeats it in the events that close the item and in the last
one. `Output` bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from serving.gateway.errors import ApiError
from serving.gateway.protocols.responses_object import Event

MAX_TEXT_CHARS: Final = 16 * 2**20
"""Text that one answer may amount to; an engine that gives more is cut off with an error."""


@dataclass(slots=True)
class TextItem:
    """A message or reasoning: one part of text.

    `kind` is the part's type: `output_text`, `refusal` or `reasoning_text`.
    """

    kind: str
    item_id: str
    index: int
    pieces: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def _text_name(self) -> str:
        return "refusal" if self.kind == "refusal" else "text"

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.item_id, "output_index": self.index, "content_index": 0}

    def _part(self, text: str) -> dict[str, Any]:
        part: dict[str, Any] = {"type": self.kind, self._text_name: text}
        if self.kind == "output_text":
            part |= {"annotations": [], "logprobs": self.logprobs}
        return part

    def _item(self, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
        if self.kind == "reasoning_text":
            own: dict[str, Any] = {"type": "reasoning", "summary": []}
        else:
            own = {"type": "message", "role": "assistant"}
        return {"id": self.item_id, **own, "status": status, "content": content}

    def opened(self) -> list[Event]:
        """The item appears, empty."""
        added = {"output_index": self.index, "item": self._item([], "in_progress")}
        return [
            ("response.output_item.added", added),
            ("response.content_part.added", {**self._place, "part": self._part("")}),
        ]

    def grown(self, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> Event:
        """More text."""
        self.pieces.append(text)
        self.logprobs += logprobs
        own = {"logprobs": list(logprobs)} if self.kind == "output_text" else {}
        return f"response.{self.kind}.delta", {**self._place, "delta": text, **own}

    def closed(self, status: str) -> list[Event]:
        """The item is whole."""
        text = "".join(self.pieces)
        own = {"logprobs": self.logprobs} if self.kind == "output_text" else {}
        return [
            (f"response.{self.kind}.done", {**self._place, self._text_name: text, **own}),
            ("response.content_part.done", {**self._place, "part": self._part(text)}),
            ("response.output_item.done", {"output_index": self.index, "item": self.value(status)}),
        ]

    def value(self, status: str) -> dict[str, Any]:
        """The item as the response object holds it."""
        return self._item([self._part("".join(self.pieces))], status)


@dataclass(slots=True)
class CallItem:
    """A call of one of the client's functions."""

    item_id: str
    index: int
    call_id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self.item_id, "output_index": self.index}

    def _item(self, arguments: str, status: str) -> dict[str, Any]:
        own = {"call_id": self.call_id, "name": self.name, "arguments": arguments}
        return {"id": self.item_id, "type": "function_call", "status": status, **own}

    def opened(self) -> list[Event]:
        """The call appears, without arguments."""
        added = {"output_index": self.index, "item": self._item("", "in_progress")}
        return [("response.output_item.added", added)]

    def grown(self, arguments: str) -> Event:
        """More of the arguments."""
        self.pieces.append(arguments)
        return "response.function_call_arguments.delta", {**self._place, "delta": arguments}

    def closed(self, status: str) -> list[Event]:
        """The call is whole."""
        done = {**self._place, "name": self.name, "arguments": "".join(self.pieces)}
        return [
            ("response.function_call_arguments.done", done),
            ("response.output_item.done", {"output_index": self.index, "item": self.value(status)}),
        ]

    def value(self, status: str) -> dict[str, Any]:
        """The call as the response object holds it."""
        return self._item("".join(self.pieces), status)


class Output:
    """The items of one answer, grown from the deltas of a chat completion.

    Args:
        new_id: what follows the prefix in an item's id.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._items: list[TextItem | CallItem] = []
        self._text: TextItem | None = None
        self._calls: dict[int, CallItem] = {}
        """By the index that chat gives them: their arguments may come interleaved, so they stay open to the end."""
        self._num_chars = 0

    def grow(self, delta: Mapping[str, Any], logprobs: Sequence[dict[str, Any]] = ()) -> list[Event]:
        """Take in a delta, or a whole message, which is a delta too.

        Raises:
            ApiError: 502 where the answer has grown beyond `MAX_TEXT_CHARS`.
        """
        events: list[Event] = []
        if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
            events += self._grow_text("reasoning_text", reasoning)
        if (content := delta.get("content")) or logprobs:
            events += self._grow_text("output_text", content or "", logprobs)
        if refusal := delta.get("refusal"):
            events += self._grow_text("refusal", refusal)
        for position, call in enumerate(delta.get("tool_calls") or ()):
            events += self._grow_call(call.get("index", position), call)
        return events

    def close(self, status: str) -> list[Event]:
        """Close what is open; `status` is how its last item ended."""
        still_open = [item for item in self._items if item is self._text or item in self._calls.values()]
        self._text = None
        self._calls.clear()
        last = len(self._items) - 1
        return [
            event
            for item in still_open
            for event in item.closed(status if item.index == last else "completed")
        ]

    def values(self, status: str) -> list[dict[str, Any]]:
        """The items; `status` is how the last of them ended."""
        last = len(self._items) - 1
        return [item.value(status if i == last else "completed") for i, item in enumerate(self._items)]

    def _grow_text(self, kind: str, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> list[Event]:
        self._count(text)
        events: list[Event] = []
        if self._text is None or self._text.kind != kind:
            if self._text is not None:
                events += self._text.closed("completed")
            prefix = "rs" if kind == "reasoning_text" else "msg"
            self._text = TextItem(kind, f"{prefix}_{self._new_id()}", len(self._items))
            self._items.append(self._text)
            events += self._text.opened()
        return [*events, self._text.grown(text, logprobs)]

    def _grow_call(self, index: int, delta: Mapping[str, Any]) -> list[Event]:
        function = delta.get("function") or {}
        arguments = function.get("arguments") or ""
        self._count(arguments)
        events: list[Event] = []
        call = self._calls.get(index)
        if call is None:
            if self._text is not None:
                events += self._text.closed("completed")
                self._text = None
            call_id = delta.get("id") or f"call_{self._new_id()}"
            call = CallItem(f"fc_{self._new_id()}", len(self._items), call_id, function.get("name") or "")
            self._calls[index] = call
            self._items.append(call)
            events += call.opened()
        return [*events, call.grown(arguments)] if arguments else events

    def _count(self, text: str) -> None:
        self._num_chars += len(text)
        if self._num_chars > MAX_TEXT_CHARS:
            message = f"The answer is longer than {MAX_TEXT_CHARS} characters."
            raise ApiError(502, message, code="upstream_protocol_error")
