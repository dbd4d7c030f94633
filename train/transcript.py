"""What was said and done in answer to a task: the text side of a rollout. Tokens are in `train.rollouts.rollout`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the policy wrote it; `arguments` may be anything at all until a tool has read it."""

    name: str
    """`<tool>_<operation>`, as the schema says."""
    arguments: str
    """JSON, if the policy kept to it."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    """Of an assistant. Their results follow as `tool` messages, in the same order."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """All turns after the task itself, and the state that they left behind."""

    messages: tuple[Message, ...]
    state: Mapping[str, JsonValue] = field(default_factory=dict)
    """By tool: its state at the end. Empty where the task has no tools."""

    @property
    def answer(self) -> str:
        """What the policy said last; empty where it said nothing, or ended on a call."""
        last = self.messages[-1] if self.messages else None
        return last.text if last is not None and last.role == "assistant" and not last.calls else ""

    @property
    def num_calls(self) -> int:
        """Tool calls made."""
        return sum(len(message.calls) for message in self.messages)


def answered(text: str) -> Transcript:
    """The transcript of a plain answer."""
    return Transcript((Message("assistant", text),))
