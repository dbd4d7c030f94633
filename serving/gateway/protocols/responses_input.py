"""The `input` of the Responses API as chat messages, and which of its parts chat cannot say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from serving.gateway.body import require
from serving.gateway.errors import invalid

ROLES: Final = ("user", "assistant", "system", "developer")
_TEXT_PARTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Parts that are text, and the member that holds it. A refusal is read by the model as what it said."""


class Obstacle(NamedTuple):
    """Something that only an engine with a Responses API of its own can be asked."""

    kind: str
    """One of `responses_request.NATIVE_ONLY`."""
    param: str
    message: str


class InputTranslation:
    """Turns items into messages, one after another.

    An item that chat cannot say is noted as an obstacle and stands in for its text, so that the router can read the
    whole conversation in any case.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.obstacles: list[Obstacle] = []
        self._add_by_type: Mapping[str, Callable[[str, dict[str, Any]], None]] = {
            "message": self._add_message,
            "reasoning": self._add_reasoning,
            "function_call": self._add_call,
            "function_call_output": self._add_result,
        }
        self._turn: dict[str, Any] | None = None
        """The assistant's message that is still growing: reasoning, text and calls are one message in chat."""

    def add(self, param: str, item: Any) -> None:
        """Add the item that stands at `param` in the request.

        Raises:
            ApiError: 400 for an item that is malformed, or that refers to one stored elsewhere.
        """
        if not isinstance(item, dict):
            raise invalid(f"`{param}` must be an object.", param, "invalid_type")
        kind = item.get("type") or ("message" if "role" in item else "item_reference")
        if kind == "item_reference":
            remedy = "nothing is stored here, so send the item itself"
            raise invalid(f"`{param}` refers to a stored item: {remedy}.", param, "unsupported_parameter")
        add = self._add_by_type.get(kind)
        if add is not None:
            add(param, item)
        else:
            self._hinder(
                f"{param}.type", f"Items of type {kind!r} are not supported by the tier that answers."
            )
            role = "tool" if str(kind).endswith("_output") else "assistant"
            self._append({"role": role, "content": orjson.dumps(item).decode()})

    def _append(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self._turn = message if message["role"] == "assistant" else None

    def _assistant_without(self, *taken: str) -> dict[str, Any]:
        """The assistant's message that is growing, or a new one where it already has one of these members."""
        if self._turn is None or any(self._turn.get(name) for name in taken):
            self._append({"role": "assistant", "content": ""})
        assert self._turn is not None
        return self._turn

    def _add_message(self, param: str, item: dict[str, Any]) -> None:
        role = item.get("role")
        if role not in ROLES:
            raise invalid(f"`{param}.role` must be one of {', '.join(ROLES)}.", f"{param}.role")
        content = self._content(f"{param}.content", item.get("content"))
        if role == "assistant":
            self._assistant_without("content", "tool_calls")["content"] = content
        else:
            self._append({"role": role, "content": content})

    def _add_reasoning(self, param: str, item: dict[str, Any]) -> None:
        """Reasoning goes back to the engine as `reasoning_content`, which llama.cpp and vLLM both read."""
        parts = require(item, "content", list, "a list") or require(item, "summary", list, "a list") or []
        text = "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
        if not text and item.get("encrypted_content"):
            self._hinder(
                param, "Encrypted reasoning cannot be read by the tier that answers: leave the item out."
            )
        if text:
            self._assistant_without("content", "tool_calls", "reasoning_content")["reasoning_content"] = text

    def _add_call(self, param: str, item: dict[str, Any]) -> None:
        function = {name: _text_member(item, name, param) for name in ("name", "arguments")}
        call = {"id": _text_member(item, "call_id", param), "type": "function", "function": function}
        self._assistant_without().setdefault("tool_calls", []).append(call)

    def _add_result(self, param: str, item: dict[str, Any]) -> None:
        call_id = _text_member(item, "call_id", param)
        content = self._content(f"{param}.output", item.get("output"))
        if isinstance(content, list) and any(part["type"] != "text" for part in content):
            self._hinder(f"{param}.output", "The tier that answers takes the output of a tool as text only.")
        self._append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _content(self, param: str, content: Any) -> str | list[dict[str, Any]]:
        """Content as chat has it; a single text is a string, which every chat template knows how to write."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise invalid(f"`{param}` must be a string or a list of parts.", param, "invalid_type")
        parts = [self._part(f"{param}[{i}]", part) for i, part in enumerate(content)]
        if not parts or (len(parts) == 1 and parts[0]["type"] == "text"):
            return str(parts[0]["text"]) if parts else ""
        return parts

    def _part(self, param: str, part: Any) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise invalid(f"`{param}` must be an object.", param, "invalid_type")
        kind = part.get("type")
        if kind in _TEXT_PARTS:
            return {"type": "text", "text": _text_member(part, _TEXT_PARTS[kind], param)}
        if kind == "input_image":
            return self._image(param, part)
        if kind == "input_file":
            return self._file(param, part)
        if kind == "input_audio":
            return part
        self._hinder(f"{param}.type", f"Parts of type {kind!r} are not supported by the tier that answers.")
        return {"type": "text", "text": ""}

    def _image(self, param: str, part: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(part.get("image_url"), str):
            self._hinder(param, "The tier that answers stores no files: send the image as `image_url`.")
        image = {"url": part.get("image_url"), "detail": part.get("detail")}
        return {"type": "image_url", "image_url": {name: value for name, value in image.items() if value}}

    def _file(self, param: str, part: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(part.get("file_data"), str):
            self._hinder(param, "The tier that answers fetches no files: send the file as `file_data`.")
        file = {name: part[name] for name in ("filename", "file_data") if part.get(name)}
        return {"type": "file", "file": file}

    def _hinder(self, param: str, message: str) -> None:
        self.obstacles.append(Obstacle("input[]", param, message))


def _text_member(item: Mapping[str, Any], name: str, param: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise invalid(f"`{param}.{name}` must be a string.", f"{param}.{name}", "invalid_type")
    return value


def translate_input(fields: Mapping[str, Any]) -> InputTranslation:
    """`instructions` and `input` as messages.

    Raises:
        ApiError: 400 where `input` is absent, empty or malformed.
    """
    translation = InputTranslation()
    if instructions := require(fields, "instructions", str, "a string"):
        translation.messages.append({"role": "system", "content": instructions})
    items = fields.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise invalid(
            "`input` must be a string or a list with at least one item.",
            "input",
            "missing_required_parameter",
        )
    for i, item in enumerate(items):
        translation.add(f"input[{i}]", item)
    return translation
