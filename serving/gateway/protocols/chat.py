"""`/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.request import RequestView
from serving.gateway.body import require, splice
from serving.gateway.errors import invalid
from serving.gateway.levers import Levers
from serving.gateway.protocols import parameters
from serving.gateway.protocols.base import Forward, Target
from serving.gateway.protocols.choices import ChoicesReader
from serving.gateway.protocols.content import Conversation


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
            parameters=parameters.set_parameters(fields),
        )

    def forward(self, raw: bytes, fields: Mapping[str, Any], target: Target) -> Forward:
        """The client's body under the engine's name of the model; a stream's usage is asked for in any case."""
        changes = parameters.for_target(fields, target)
        if parameters.is_streaming(fields):
            changes["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
        reader = ChoicesReader(
            wants_usage=parameters.wants_usage(fields),
            expose_vendor_fields=target.expose_vendor_fields,
            service_tier=target.service_tier,
        )
        return Forward(path="/v1/chat/completions", body=splice(raw, fields, changes), reader=reader)


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


def _max_output_tokens(fields: Mapping[str, Any]) -> int | None:
    """`max_completion_tokens`, or `max_tokens`, which it replaced."""
    newer = parameters.count(fields, "max_completion_tokens")
    return newer if newer is not None else parameters.count(fields, "max_tokens", least=0)
