"""A request of the Responses API as a request for a chat completion; what has no equal there is named, never dropped.

`phase`, `status` and `id` of input items label what the client got before and ask for nothing, so they stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from serving.gateway.body import require
from serving.gateway.errors import invalid
from serving.gateway.protocols import parameters
from serving.gateway.protocols.responses_input import Obstacle, translate_input

_NOTHING_IS_STORED: Final = "nothing is stored here: send the whole conversation in `input`"
STATEFUL: Final[Mapping[str, str]] = {
    "previous_response_id": _NOTHING_IS_STORED,
    "conversation": _NOTHING_IS_STORED,
    "store": "nothing is stored here: send `store: false`, or leave it out",
    "background": "answers are given while the client waits: leave it out, or ask for a stream",
    "prompt": "there are no prompt templates here: send the text as `instructions` and `input`",
}
"""What no tier can be asked, since the gateway keeps no state between requests, and the remedy."""

CHAT_ONLY: Final[Mapping[str, str]] = {
    "messages": "the Responses API calls it `input`",
    "n": "the Responses API gives one answer: send the request several times",
    "functions": "the Responses API calls it `tools`",
    "function_call": "the Responses API calls it `tool_choice`",
}
"""Members of a chat request that could not be told from ours after the translation."""

_NATIVE_MEMBERS: Final = frozenset(
    {
        "access_programs",
        "background_options",
        "context_management",
        "image",
        "max_tool_calls",
        "truncation",
    }
)
NATIVE_ONLY: Final = _NATIVE_MEMBERS | {
    "include[]",
    "input[]",
    "reasoning.summary",
    "stream_options.include_obfuscation",
    "text.format.type",
    "tool_choice.type",
    "tools[]",
}
"""As `RequestView.parameters`: what only a tier whose engine has a Responses API of its own heeds."""

LOGPROBS: Final = "message.output_text.logprobs"
_INCLUDED: Final = frozenset({LOGPROBS, "reasoning.encrypted_content"})
"""The second is there so that clients can send reasoning back without a store. Ours comes in the clear and can be."""

_TRANSLATED: Final = frozenset(
    {
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "reasoning",
        "stream_options",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)
_FUNCTION_MEMBERS: Final = ("name", "description", "parameters", "strict")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The body of a chat request, and what of the original it cannot say."""

    fields: dict[str, Any]
    obstacles: tuple[Obstacle, ...]


def as_chat(fields: Mapping[str, Any]) -> ChatRequest:
    """`fields`, translated. Members that neither API names (an engine's own sampling parameters) go through.

    Raises:
        ApiError: 400 that names a member which is malformed, or which no tier can be asked.
    """
    _refuse(fields)
    left_out = _TRANSLATED | _NATIVE_MEMBERS | STATEFUL.keys()
    chat = {name: value for name, value in fields.items() if name not in left_out and value is not None}
    translation = translate_input(fields)
    chat["messages"] = translation.messages
    obstacles = list(translation.obstacles)
    for translate in _TRANSLATIONS:
        obstacles += translate(fields, chat)
    for name in sorted(_NATIVE_MEMBERS & parameters.set_parameters(fields)):
        obstacles.append(Obstacle(name, name, f"`{name}` is not supported by the tier that answers."))
    return ChatRequest(chat, tuple(obstacles))


def _refuse(fields: Mapping[str, Any]) -> None:
    for name, remedy in STATEFUL.items():
        if fields.get(name) not in (None, False):
            raise invalid(f"`{name}` is not supported: {remedy}.", name, "unsupported_parameter")
    for name, remedy in CHAT_ONLY.items():
        if fields.get(name) not in (None, 1):
            raise invalid(f"Unknown parameter `{name}`: {remedy}.", name, "unknown_parameter")


def _limits(fields: Mapping[str, Any], chat: dict[str, Any]) -> Iterator[Obstacle]:
    if (limit := parameters.count(fields, "max_output_tokens")) is not None:
        chat["max_completion_tokens"] = limit
    options = require(fields, "stream_options", dict, "an object") or {}
    parameters.wants_usage(fields)
    if options.get("include_obfuscation"):
        param = "stream_options.include_obfuscation"
        yield Obstacle(param, param, "The tier that answers cannot pad its events.")


def _reasoning(fields: Mapping[str, Any], chat: dict[str, Any]) -> Iterator[Obstacle]:
    reasoning = require(fields, "reasoning", dict, "an object") or {}
    if (effort := reasoning.get("effort")) is not None:
        parameters.effort(effort, "reasoning.effort")
        chat["reasoning_effort"] = effort
    if reasoning.get("summary") or reasoning.get("generate_summary"):
        yield Obstacle(
            "reasoning.summary",
            "reasoning.summary",
            "The tier that answers does not summarise its reasoning: leave `summary` out to get the reasoning itself.",
        )


def _text(fields: Mapping[str, Any], chat: dict[str, Any]) -> Iterator[Obstacle]:
    text = require(fields, "text", dict, "an object") or {}
    if text.get("verbosity") is not None:
        chat["verbosity"] = text["verbosity"]
    form = text.get("format")
    if form is None:
        return
    if not isinstance(form, dict):
        raise invalid("`text.format` must be an object.", "text.format", "invalid_type")
    kind = form.get("type")
    if kind == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type"}
        chat["response_format"] = {"type": kind, "json_schema": schema}
    elif kind in {"text", "json_object"}:
        chat["response_format"] = {"type": kind}
    else:
        chat["response_format"] = form
        param = "text.format.type"
        yield Obstacle(param, param, f"Text of type {kind!r} is not supported by the tier that answers.")


def _tools(fields: Mapping[str, Any], chat: dict[str, Any]) -> Iterator[Obstacle]:
    tools = require(fields, "tools", list, "a list") or []
    if tools:
        chat["tools"] = [_tool(tool) for tool in tools]
    for i, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise invalid(f"`tools[{i}]` must be an object.", f"tools[{i}]", "invalid_type")
        if tool.get("type") != "function":
            message = f"Only tools of type 'function' are supported by the tier that answers, not {tool.get('type')!r}."
            yield Obstacle("tools[]", f"tools[{i}].type", message)
        for name in sorted(tool.keys() - {"type", *_FUNCTION_MEMBERS}):
            if tool["type"] == "function" and tool[name]:
                message = f"A function's `{name}` is not supported by the tier that answers."
                yield Obstacle("tools[]", f"tools[{i}].{name}", message)
    yield from _tool_choice(fields.get("tool_choice"), chat)


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    function = {name: tool[name] for name in _FUNCTION_MEMBERS if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _tool_choice(choice: Any, chat: dict[str, Any]) -> Iterator[Obstacle]:
    if choice is None:
        return
    if isinstance(choice, str):
        chat["tool_choice"] = choice
    elif not isinstance(choice, dict):
        raise invalid("`tool_choice` must be a string or an object.", "tool_choice", "invalid_type")
    elif choice.get("type") == "function":
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif choice.get("type") == "allowed_tools":
        allowed = {
            "mode": choice.get("mode", "auto"),
            "tools": [_tool(tool) for tool in choice.get("tools") or ()],
        }
        chat["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    else:
        message = f"A `tool_choice` of type {choice.get('type')!r} is not supported by the tier that answers."
        yield Obstacle("tool_choice.type", "tool_choice.type", message)


def _include(fields: Mapping[str, Any], chat: dict[str, Any]) -> Iterator[Obstacle]:
    """`top_logprobs` without the `include` asks for log-probabilities too: what else could it mean."""
    include = require(fields, "include", list, "a list") or []
    top_logprobs = parameters.count(fields, "top_logprobs", least=0)
    if LOGPROBS in include or top_logprobs:
        chat |= {"logprobs": True, "top_logprobs": top_logprobs or 0}
    for i, value in enumerate(include):
        if value not in _INCLUDED:
            message = f"The tier that answers cannot include {value!r}."
            yield Obstacle("include[]", f"include[{i}]", message)


_TRANSLATIONS: Final[tuple[Callable[[Mapping[str, Any], dict[str, Any]], Iterator[Obstacle]], ...]] = (
    _limits,
    _reasoning,
    _text,
    _tools,
    _include,
)
