"""The tool interface: typed operations with JSON schemas, on a state that can be read, copied and undone.

A tool never acts outside its own state. An erroneous call, of whatever kind, returns evidence and changes nothing. The
schemas are OpenAI's, so that the same tool can be offered to any chat model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from train.transcript import JsonValue, ToolCall


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be asked of a tool."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    """A JSON schema of type `object`, without references; unknown members are refused."""
    is_reading: bool
    """Whether it leaves the state as it is."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to."""

    is_ok: bool
    content: str
    """What the policy reads: the result, or what was wrong and how it could be right."""


class Tool(Protocol):
    """One tool, with its state. Made by its class from a plain state."""

    @property
    def name(self) -> str:
        """Lower case; stands before the operation in a call."""
        ...

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All there are."""
        ...

    @classmethod
    def from_state(cls, state: Mapping[str, JsonValue]) -> Self:
        """The tool as it stands in a state, which is copied. States come from generators and from `state`, never
        from a policy: members that are left out begin empty."""
        ...

    def apply(self, operation: str, arguments: Mapping[str, JsonValue]) -> ToolResult:
        """Do it. Arguments have been checked against the schema. Raises nothing but `ToolError`; the toolset takes
        back whatever was changed before that."""
        ...

    def state(self) -> dict[str, JsonValue]:
        """All of it, as its class reads it: a copy."""
        ...


class ToolError(Exception):
    """The call cannot be done; the message says what would be right."""


class Toolset(Protocol):
    """The tools of one item, as a policy meets them: `train.tools.toolset` has the one there is."""

    def schemas(self) -> list[dict[str, JsonValue]]:
        """OpenAI's `tools`, each function named `<tool>_<operation>`."""
        ...

    def call(self, call: ToolCall) -> ToolResult:
        """Do it, within the budget; never raises for what a policy wrote."""
        ...

    def undo(self) -> bool:
        """Take the last call that changed something back; whether there was one."""
        ...

    def state(self) -> dict[str, JsonValue]:
        """By tool: its state, a copy."""
        ...
