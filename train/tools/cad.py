"""Parts in three dimensions, by name: made, moved, joined, cut, measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.solids import MAX_SIZE, MIN_SIZE, SolidError, Tree, check, measures
from train.tools.wire import plain_copy, record, told
from train.transcript import JsonValue

MAX_PARTS: Final = 30

_NAME: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": 40}
_SIZE: Final[dict[str, JsonValue]] = {"type": "number", "minimum": MIN_SIZE, "maximum": MAX_SIZE}
_VECTOR: Final[dict[str, JsonValue]] = {
    "type": "array",
    "items": {"type": "number", "minimum": -10 * MAX_SIZE, "maximum": 10 * MAX_SIZE},
    "minItems": 3,
    "maxItems": 3,
}
_SIZES: Final[dict[str, JsonValue]] = {"type": "array", "items": _SIZE, "minItems": 3, "maxItems": 3}
_FACTORS: Final[dict[str, JsonValue]] = {
    "type": "array",
    "items": {"type": "number", "minimum": 0.01, "maximum": 100},
    "minItems": 3,
    "maxItems": 3,
}
_NAMES: Final[dict[str, JsonValue]] = {"type": "array", "items": _NAME, "minItems": 2, "maxItems": 10}
_BOOLEANS: Final = ("union", "difference", "intersection")


def _making(name: str, description: str, **members: JsonValue) -> Operation:
    return Operation(name, description, record({"name": _NAME, **members}), is_reading=False)


@dataclass(slots=True)
class Cad:
    """Named parts, each a tree of `train.tools.solids`. Coordinates are millimetres."""

    parts: dict[str, Tree]
    name: ClassVar[str] = "cad"
    operations: ClassVar[tuple[Operation, ...]] = (
        _making("box", "Make a box from the origin to its size [x, y, z].", size=_SIZES),
        _making(
            "cylinder", "Make a cylinder that stands on the origin, along z.", radius=_SIZE, height=_SIZE
        ),
        _making("sphere", "Make a sphere about the origin.", radius=_SIZE),
        _making("move", "Move a part by [x, y, z].", by=_VECTOR),
        _making("turn", "Turn a part about the x, y and z axis, in degrees.", by=_VECTOR),
        _making("scale", "Stretch a part along x, y and z, from the origin.", by=_FACTORS),
        _making("union", "Join parts into one of this name; they are used up.", of=_NAMES),
        _making(
            "difference",
            "Cut the other parts out of the first, into one of this name; they are used up.",
            of=_NAMES,
        ),
        _making(
            "intersection", "What parts have in common, as one of this name; they are used up.", of=_NAMES
        ),
        Operation("delete", "Remove a part.", record({"name": _NAME}), is_reading=False),
        Operation("list", "The names of all parts.", record(), is_reading=True),
        Operation("measure", "A part's volume, bounds and holes.", record({"name": _NAME}), is_reading=True),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`; `parts` has trees by name."""
        return cls(plain_copy(state.get("parts", {})))

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        match operation:
            case "list":
                return told([*self.parts])
            case "measure":
                return self._measured(arguments["name"])
            case "delete":
                self._held(arguments["name"])
                del self.parts[arguments["name"]]
                return told("deleted")
            case "move" | "turn" | "scale":
                held = self._held(arguments["name"])
                return self._made(arguments["name"], [operation, arguments["by"], held])
        if operation in _BOOLEANS:
            return self._joined(operation, **arguments)
        sizes = [value for member, value in arguments.items() if member != "name"]
        if operation == "cylinder":
            sizes = [arguments["radius"], arguments["height"]]
        self._check_free(arguments["name"])
        return self._made(arguments["name"], [operation, *sizes])

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {"parts": plain_copy(self.parts)}

    def _joined(self, operation: str, name: str, of: list[str]) -> ToolResult:
        if len(set(of)) != len(of):
            raise ToolError("a part cannot be joined with itself")
        trees = [self._held(each) for each in of]
        for each in of:
            del self.parts[each]
        self._check_free(name)
        return self._made(name, [operation, *trees])

    def _made(self, name: str, tree: Tree) -> ToolResult:
        try:
            self.parts[name] = check(tree)
        except SolidError as error:
            raise ToolError(str(error)) from None
        return told("done")

    def _measured(self, name: str) -> ToolResult:
        found = measures(self._held(name))
        bounds: list[JsonValue] = [[round(value, 3) for value in corner] for corner in found.bounds]
        return told(
            {
                "volume": round(found.volume, 3),
                "bounds": bounds,
                "holes": found.genus,
                "pieces": found.num_pieces,
            }
        )

    def _held(self, name: str) -> Tree:
        if name not in self.parts:
            raise ToolError(f"there is no part {name!r}; there are: {', '.join(self.parts) or 'none'}")
        return self.parts[name]

    def _check_free(self, name: str) -> None:
        if name in self.parts:
            raise ToolError(f"there is a part {name!r} already")
        if len(self.parts) >= MAX_PARTS:
            raise ToolError(f"there are {MAX_PARTS} parts already")
