"""`/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from router.request import RequestView
from serving.engines.llamacpp_tools import force_call
from serving.gateway.body import require, splice
from serving.gateway.errors import invalid
from serving.gateway.levers import Levers
from serving.gateway.protocols import parameters
from serving.gateway.protocols.assembled import AssemblingReader
from serving.gateway.protocols.base import Forward, Target
from serving.gateway.protocols.choices import ChoicesReader
from serving.gateway.protocols.content import Conversation
from serving.gateway.protocols.token_tap import NUM_ALTERNATIVES, TokenTap


class ChatAdapter:
    """Chat completions: relayed as they are, but for the model's name and the usage of streams."""

    endpoint = "chat"

    def is_streaming(self, fields: Mapping[str, Any]) -> bool:
        """Whether the client asked for a stream."""
        return parameters.is_streaming(fields)

    def view(self, fields: Mapping[str, Any], levers: Levers) -> RequestView:
        """What the router may know of the conversation."""
        conversation = read_messages(fields)
        tools = require(fields, "tools", list, "a list") or require(fields, "functions", list, "a list") or []
        if tools:
            conversation.add_json(tools)
        response_format = require(fields, "response_format", dict, "an object") or {}
        parameters.wants_usage(fields)
        return RequestView(
            endpoint=self.endpoint,
            model=parameters.model_of(fields),
            turns=tuple(conversation.turns),
            system="\n".join(conversation.system),
            num_chars=conversation.num_chars,
            modalities=frozenset(conversation.modalities),
            num_tools=len(tools),
            is_tool_loop=conversation.is_tool_loop,
            needs_schema=response_format.get("type", "text") != "text",
            needs_logprobs=bool(require(fields, "logprobs", bool, "true or false")),
            num_choices=parameters.count(fields, "n", default=1) or 1,
            max_output_tokens=_max_output_tokens(fields),
            service_tier=parameters.service_tier(fields),
            max_effort=parameters.effort(fields.get("reasoning_effort")),
            wanted_arm=levers.wanted_arm,
            max_cost=levers.max_cost,
            min_quality=levers.min_quality,
            session=levers.session or require(fields, "prompt_cache_key", str, "a string"),
            parameters=parameters.set_parameters(fields) | _pitfalls(fields),
        )

    def forward(self, raw: bytes, fields: Mapping[str, Any], target: Target) -> Forward:
        """The client's body under the engine's name of the model; a stream's usage is asked for in any case."""
        body = splice(raw, fields, self.changes(fields, target))
        is_assembled = parameters.is_assembled(fields, target)
        tap = tap_of(fields, target)
        reader = ChoicesReader(
            wants_usage=is_assembled or parameters.wants_usage(fields),
            wants_chunk_usage=parameters.wants_chunk_usage(fields),
            num_choices=parameters.count(fields, "n", default=1) or 1,
            expose_vendor_fields=target.expose_vendor_fields,
            service_tier=target.service_tier,
            reshape=_reshape(fields, target, tap),
        )
        return Forward(
            path="/v1/chat/completions",
            body=body,
            reader=AssemblingReader(reader) if is_assembled else reader,
            tap=tap,
        )

    def changes(self, fields: Mapping[str, Any], target: Target) -> dict[str, Any]:
        """What the upstream body differs in from the client's, which is `fields`."""
        changes = parameters.for_target(fields, target) | parameters.stream_changes(fields, target)
        if fields.get("logprobs") and not fields.get("top_logprobs"):
            # 0 and absent mean no alternatives; llama.cpp gives no log-probs at all for 0, and 20 for absent.
            changes["top_logprobs"] = 1
        if target.wants_first_tokens:
            asked = (fields.get("top_logprobs") or 0) if fields.get("logprobs") else 0
            changes |= {"logprobs": True, "top_logprobs": max(asked, NUM_ALTERNATIVES)}
        if target.engine.forced_call_prefix is not None:
            changes |= force_call(fields, target.engine.forced_call_prefix)
        return changes


def read_messages(fields: Mapping[str, Any]) -> Conversation:
    """The messages' text.

    Raises:
        ApiError: `messages` is absent, empty, or not a list of objects with a role.
    """
    messages = require(fields, "messages", list, "a list")
    if not messages:
        raise invalid(
            "`messages` must be a list with at least one message.", "messages", "missing_required_parameter"
        )
    conversation = Conversation()
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid(
                f"`messages[{i}]` must be an object with a `role`.", f"messages[{i}]", "invalid_type"
            )
        conversation.add(message["role"], message.get("content"))
        if calls := message.get("tool_calls"):
            conversation.add_json(calls)
    return conversation


def tap_of(fields: Mapping[str, Any], target: Target) -> TokenTap | None:
    """Who reads the first tokens of the answer to `fields`; None where nobody asked about them."""
    return TokenTap(is_hidden=not fields.get("logprobs")) if target.wants_first_tokens else None


def _reshape(
    fields: Mapping[str, Any], target: Target, tap: TokenTap | None
) -> Callable[[dict[str, Any]], None] | None:
    """Brings log-probabilities into the form that was asked for; None where none were."""
    if not fields.get("logprobs"):
        return None if tap is None else tap.take
    num_top = require(fields, "top_logprobs", int, "a whole number") or 0
    keeps_ids = target.expose_vendor_fields

    def reshape(parsed: dict[str, Any]) -> None:
        if tap is not None:
            tap.take(parsed)
        for choice in parsed.get("choices") or ():
            for entry in (choice.get("logprobs") or {}).get("content") or ():
                entry["top_logprobs"] = (entry.get("top_logprobs") or [])[:num_top]
                for token in () if keeps_ids else (entry, *entry["top_logprobs"]):
                    token.pop("id", None)

    return reshape


def _max_output_tokens(fields: Mapping[str, Any]) -> int | None:
    """`max_completion_tokens`, or `max_tokens`, which it replaced."""
    newer = parameters.count(fields, "max_completion_tokens")
    return newer if newer is not None else parameters.count(fields, "max_tokens", least=0)


def _pitfalls(fields: Mapping[str, Any]) -> set[str]:
    """Those of `parameters.PITFALLS` that the request holds."""
    calls = (call for message in fields["messages"] for call in message.get("tool_calls") or ())
    found = set()
    if not all(map(_has_json_arguments, calls)):
        found.add(parameters.MALFORMED_CALL)
    if (
        fields.get("response_format")
        and _num_enum_values(fields["response_format"]) > parameters.MAX_ENUM_VALUES
    ):
        found.add(parameters.LARGE_ENUM)
    return found


def _has_json_arguments(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, str):
        return True  # nothing, or an object: not a matter of JSON
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return False
    return True


def _num_enum_values(schema: Any) -> int:
    """The values of all `enum`s in a schema, which JSON's parser has bounded in depth."""
    total, waiting = 0, [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            enum = node.get("enum")
            total += len(enum) if isinstance(enum, list) else 0
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return total
