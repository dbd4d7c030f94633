"""Between a toolset and any chat model that speaks OpenAI's API: calls in, results out, and a transcript to verify.

The schemas that such a model is offered are `BoundedToolset.schemas()`. Messages are plain dicts, as they go over the
wire; nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from train.tools.base import Toolset
from train.transcript import Message, ToolCall, Transcript


def results_of(toolset: Toolset, message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Do the calls of an assistant's message: a `tool` message for each, in their order; none where it answered."""
    return [
        {"role": "tool", "tool_call_id": asked["id"], "content": toolset.call(_call(asked)).content}
        for asked in message.get("tool_calls") or ()
    ]


def transcript_of(toolset: Toolset, messages: Iterable[Mapping[str, Any]]) -> Transcript:
    """What was said and done after the task: system and user messages are left out."""
    return Transcript(
        tuple(
            Message(
                message["role"],
                message.get("content") or "",
                tuple(map(_call, message.get("tool_calls") or ())),
            )
            for message in messages
            if message["role"] in ("assistant", "tool")
        ),
        toolset.state(),
    )


def _call(asked: Mapping[str, Any]) -> ToolCall:
    return ToolCall(asked["function"]["name"], asked["function"]["arguments"])
