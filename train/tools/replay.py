"""Does a transcript's calls again. Tools are deterministic, so this tells what was done from what is only said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from train.domains.base import Environment
from train.tools.base import ToolResult
from train.tools.toolset import BoundedToolset
from train.transcript import JsonValue, Message, ToolCall, Transcript


@dataclass(frozen=True, slots=True)
class Replay:
    """What the calls came to."""

    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    """One for each call."""
    state: Mapping[str, JsonValue]
    """At the end."""


def replayed(environment: Environment, transcript: Transcript) -> Replay:
    """The calls of a transcript, from the environment's beginning."""
    toolset = BoundedToolset.of(environment)
    calls = tuple(call for message in transcript.messages for call in message.calls)
    return Replay(calls, tuple(toolset.call(call) for call in calls), toolset.state())


def performed(environment: Environment, turns: tuple[tuple[ToolCall, ...], ...], answer: str) -> Transcript:
    """The transcript of one who makes these calls, turn by turn, and then answers.

    Raises:
        ValueError: a call fails, or has no result within the budget; the message has the evidence.
    """
    toolset = BoundedToolset.of(environment)
    messages: list[Message] = []
    for calls in turns:
        messages.append(Message("assistant", "", calls))
        for call in calls:
            result = toolset.call(call)
            if not result.is_ok:
                raise ValueError(f"{call.name}({call.arguments}): {result.content}")
            messages.append(Message("tool", result.content))
    messages.append(Message("assistant", answer))
    return Transcript(tuple(messages), toolset.state())
