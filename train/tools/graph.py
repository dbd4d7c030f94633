"""A graph with weighted edges, one step at a time: a policy must find its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import record, told
from train.transcript import JsonValue

MAX_EDGES: Final = 2_000

_NODE: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 40}
_WEIGHT: Final[dict[str, JsonValue]] = {"type": "integer", "minimum": 1, "maximum": 1_000_000}


@dataclass(slots=True)
class Graph:
    """Edges by their two ends, in the order of the alphabet; they lead both ways."""

    edges: dict[tuple[str, str], int]
    name: ClassVar[str] = "graph"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation(
            "neighbours",
            "The neighbours of a node and how far they are.",
            record({"node": _NODE}),
            is_reading=True,
        ),
        Operation(
            "connect",
            "Lay an edge between two nodes, or change its length.",
            record({"one": _NODE, "other": _NODE, "length": _WEIGHT}),
            is_reading=False,
        ),
        Operation("cut", "Remove an edge.", record({"one": _NODE, "other": _NODE}), is_reading=False),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`; `edges` are [one, other, length]."""
        return cls({_key(one, other): length for one, other, length in state.get("edges", ())})

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {
            "neighbours": self._neighbours,
            "connect": self._connect,
            "cut": self._cut,
        }
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"edges": [[one, other, length] for (one, other), length in sorted(self.edges.items())]}

    def _neighbours(self, node: str) -> ToolResult:
        found: dict[str, JsonValue] = {
            ends[1 - ends.index(node)]: length for ends, length in sorted(self.edges.items()) if node in ends
        }
        if not found:
            raise ToolError(f"there is no node {node!r}")
        return told(found)

    def _connect(self, one: str, other: str, length: int) -> ToolResult:
        if one == other:
            raise ToolError("an edge needs two nodes")
        if _key(one, other) not in self.edges and len(self.edges) >= MAX_EDGES:
            raise ToolError(f"there are {MAX_EDGES} edges already")
        self.edges[_key(one, other)] = length
        return told("connected")

    def _cut(self, one: str, other: str) -> ToolResult:
        if _key(one, other) not in self.edges:
            raise ToolError(f"there is no edge between {one!r} and {other!r}")
        del self.edges[_key(one, other)]
        return told("cut")


def _key(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
