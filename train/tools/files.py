"""A small tree of text files that exists nowhere but here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import record, told
from train.transcript import JsonValue

MAX_FILES: Final = 100
MAX_FILE_CHARS: Final = 8_000

_PATH_SHAPE: Final = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")
_PATH: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 100}
_TEXT: Final[dict[str, JsonValue]] = {"type": "string", "maxLength": MAX_FILE_CHARS}


@dataclass(slots=True)
class Files:
    """Texts by path."""

    texts: dict[str, str]
    name: ClassVar[str] = "files"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("list", "The paths of all files.", record(), is_reading=True),
        Operation("read", "The text of a file.", record({"path": _PATH}), is_reading=True),
        Operation(
            "find",
            "The lines that contain a text, each as path:number:line.",
            record({"text": {"type": "string", "minLength": 1, "maxLength": 200}}),
            is_reading=True,
        ),
        Operation(
            "write",
            "Make a file, or give one a new text altogether.",
            record({"path": _PATH, "text": _TEXT}),
            is_reading=False,
        ),
        Operation(
            "replace",
            "Replace a passage of a file; it must occur exactly once.",
            record({"path": _PATH, "old": {**_TEXT, "minLength": 1}, "new": _TEXT}),
            is_reading=False,
        ),
        Operation(
            "move",
            "Give a file another path, where there is no file yet.",
            record({"path": _PATH, "to": _PATH}),
            is_reading=False,
        ),
        Operation("delete", "Remove a file.", record({"path": _PATH}), is_reading=False),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`; `files` has texts by path."""
        return cls(dict(state.get("files", {})))

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {
            "list": self._list,
            "read": self._read,
            "find": self._find,
            "write": self._write,
            "replace": self._replace,
            "move": self._move,
            "delete": self._delete,
        }
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"files": dict(self.texts)}

    def _list(self) -> ToolResult:
        return told([*sorted(self.texts)])

    def _read(self, path: str) -> ToolResult:
        return told(self._held(path))

    def _find(self, text: str) -> ToolResult:
        return told(
            "\n".join(
                f"{path}:{number}:{line}"
                for path in sorted(self.texts)
                for number, line in enumerate(self.texts[path].splitlines(), 1)
                if text in line
            )
        )

    def _write(self, path: str, text: str) -> ToolResult:
        self.texts[self._free(path)] = text
        return told("written")

    def _replace(self, path: str, old: str, new: str) -> ToolResult:
        held = self._held(path)
        if (num := held.count(old)) != 1:
            raise ToolError(f"the passage occurs {num} times in {path}; it must occur exactly once")
        changed = held.replace(old, new)
        if len(changed) > MAX_FILE_CHARS:
            raise ToolError(f"{path} would be longer than {MAX_FILE_CHARS} characters")
        self.texts[path] = changed
        return told("replaced")

    def _move(self, path: str, to: str) -> ToolResult:
        held = self._held(path)
        if to in self.texts:
            raise ToolError(f"there is a file {to!r} already")
        del self.texts[path]
        self.texts[self._free(to)] = held
        return told("moved")

    def _delete(self, path: str) -> ToolResult:
        self._held(path)
        del self.texts[path]
        return told("deleted")

    def _held(self, path: str) -> str:
        if path not in self.texts:
            raise ToolError(f"there is no file {path!r}")
        return self.texts[path]

    def _free(self, path: str) -> str:
        if not _PATH_SHAPE.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise ToolError(f"{path!r} is no path: names of letters, digits, '.', '_' and '-', parted by '/'")
        if path not in self.texts and len(self.texts) >= MAX_FILES:
            raise ToolError(f"there are {MAX_FILES} files already")
        return path
