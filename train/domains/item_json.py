"""Items and transcripts as JSON and back, for what is kept, sent to a worker, or shown."""

from __future__ import annotations

import dataclasses
from typing import Any

from train.domains.base import Environment, Item
from train.transcript import JsonValue, Message, ToolCall, Transcript


def item_as_json(item: Item) -> dict[str, JsonValue]:
    """Every field of an item."""
    fields: dict[str, JsonValue] = {
        field.name: getattr(item, field.name) for field in dataclasses.fields(item)
    }
    return fields | {"data": dict(item.data), "environment": _environment(item.environment)}


def item_from_json(read: dict[str, Any]) -> Item:
    """The item that `item_as_json` wrote."""
    environment = read["environment"]
    return Item(**{**read, "environment": None if environment is None else Environment(**environment)})


def transcript_as_json(transcript: Transcript) -> dict[str, JsonValue]:
    """Every turn, and the state at the end."""
    messages: list[JsonValue] = [
        {
            "role": message.role,
            "text": message.text,
            "calls": [{"name": call.name, "arguments": call.arguments} for call in message.calls],
        }
        for message in transcript.messages
    ]
    return {"messages": messages, "state": dict(transcript.state)}


def transcript_from_json(read: dict[str, Any]) -> Transcript:
    """The transcript that `transcript_as_json` wrote."""
    messages = tuple(
        Message(turn["role"], turn["text"], tuple(ToolCall(**call) for call in turn["calls"]))
        for turn in read["messages"]
    )
    return Transcript(messages, read["state"])


def _environment(environment: Environment | None) -> JsonValue:
    if environment is None:
        return None
    tools: dict[str, JsonValue] = {name: dict(state) for name, state in environment.tools.items()}
    return {"tools": tools, "max_calls": environment.max_calls}
