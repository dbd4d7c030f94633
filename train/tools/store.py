"""A key-value store of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import record, told
from train.transcript import JsonValue

MAX_KEYS: Final = 1_000
MAX_LISTED: Final = 100

_KEY: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 100}
_VALUE: Final[dict[str, JsonValue]] = {"type": "string", "maxLength": 1_000}


@dataclass(slots=True)
class Store:
    """Keys and their values."""

    entries: dict[str, str]
    name: ClassVar[str] = "store"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("get", "The value of a key.", record({"key": _KEY}), is_reading=True),
        Operation(
            "list",
            f"The keys that begin with a prefix, in order, at most {MAX_LISTED}.",
            record({}, {"prefix": {"type": "string", "maxLength": 100}}),
            is_reading=True,
        ),
        Operation(
            "set", "Give a key a value, new or not.", record({"key": _KEY, "value": _VALUE}), is_reading=False
        ),
        Operation("delete", "Remove a key.", record({"key": _KEY}), is_reading=False),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`; `entries` has values by key."""
        return cls(dict(state.get("entries", {})))

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {
            "get": self._get,
            "list": self._list,
            "set": self._set,
            "delete": self._delete,
        }
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"entries": dict(self.entries)}

    def _get(self, key: str) -> ToolResult:
        return told(self._held(key))

    def _list(self, prefix: str = "") -> ToolResult:
        found: list[JsonValue] = [key for key in sorted(self.entries) if key.startswith(prefix)]
        return told(found[:MAX_LISTED])

    def _set(self, key: str, value: str) -> ToolResult:
        if key not in self.entries and len(self.entries) >= MAX_KEYS:
            raise ToolError(f"the store is full: {MAX_KEYS} keys")
        self.entries[key] = value
        return told("set")

    def _delete(self, key: str) -> ToolResult:
        self._held(key)
        del self.entries[key]
        return told("deleted")

    def _held(self, key: str) -> str:
        if key not in self.entries:
            raise ToolError(f"there is no key {key!r}")
        return self.entries[key]
