"""What crosses between a policy and a tool: arguments as JSON, checked against a schema, and results as JSON.

The schemas are the part of JSON Schema that tools here need: `type`, `properties`, `required`, `items`, `enum`,
`minimum`, `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`. Members that no schema names are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from train.tools.base import ToolError, ToolResult
from train.transcript import JsonValue

MAX_ARGUMENT_CHARS: Final = 20_000
MAX_DEPTH: Final = 20
MAX_DIGITS: Final = 100
"""Of a number in arguments."""
MAX_RESULT_CHARS: Final = 8_000
"""Of what a policy reads; a longer result is an error that says to ask for less."""

_TYPES: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
}


def record(
    required: Mapping[str, JsonValue] | None = None, optional: Mapping[str, JsonValue] | None = None
) -> dict[str, JsonValue]:
    """The schema of an operation's arguments."""
    return {
        "type": "object",
        "properties": {**(required or {}), **(optional or {})},
        "required": list(required or {}),
        "additionalProperties": False,
    }


def arguments_of(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a policy wrote.

    Raises:
        ToolError: they are no JSON object, or not what the schema asks for; the message says where.
    """
    value = parsed(text)
    _check(value, schema, "arguments")
    assert isinstance(value, dict), "the schema of arguments is of type object"
    return value


def parsed(text: str, what: str = "arguments") -> JsonValue:
    """JSON that a policy wrote: bounded in length, depth and digits, without NaN and without a member named twice.

    Raises:
        ToolError: it is none.
    """
    if len(text) > MAX_ARGUMENT_CHARS:
        raise ToolError(f"{what} have {len(text)} characters; at most {MAX_ARGUMENT_CHARS} are read")
    if _depth(text) > MAX_DEPTH:
        raise ToolError(f"{what} are nested more than {MAX_DEPTH} deep")
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_members, parse_constant=_refused, parse_int=_whole, parse_float=_finite
        )
    except ValueError as error:
        raise ToolError(f"{what} are not JSON: {error}") from None
    return value


def told(value: JsonValue) -> ToolResult:
    """A result: a text as it is, anything else as JSON.

    Raises:
        ToolError: it is too long to be read.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_RESULT_CHARS:
        raise ToolError(f"the result has {len(text)} characters, more than {MAX_RESULT_CHARS}: ask for less")
    return ToolResult(True, text)


def plain_copy(value: Any) -> Any:
    """A JSON value of its own: nothing in it is shared with the original."""
    if isinstance(value, Mapping):
        return {name: plain_copy(member) for name, member in value.items()}
    return [plain_copy(member) for member in value] if isinstance(value, list | tuple) else value


def _check(value: Any, schema: Mapping[str, Any], place: str) -> None:
    kind, types = _TYPES[schema["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ToolError(f"{place}: expected {kind}, got {_shown(value)}")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(
            f"{place}: expected one of {', '.join(map(str, schema['enum']))}, got {_shown(value)}"
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        _within(value, schema.get("minimum"), schema.get("maximum"), f"{place}: {_shown(value)}")
    if isinstance(value, str):
        _within(
            len(value), schema.get("minLength"), schema.get("maxLength"), f"{place}: its length {len(value)}"
        )
    if isinstance(value, list):
        _within(
            len(value), schema.get("minItems"), schema.get("maxItems"), f"{place}: its length {len(value)}"
        )
        for index, member in enumerate(value):
            _check(member, schema["items"], f"{place}[{index}]")
    if isinstance(value, dict):
        _check_members(value, schema, place)


def _check_members(value: Mapping[str, Any], schema: Mapping[str, Any], place: str) -> None:
    properties = schema["properties"]
    unknown = [name for name in value if name not in properties]
    if unknown:
        known = ", ".join(properties) or "none"
        raise ToolError(f"{place}: unknown member {_shown(unknown[0])}; there are: {known}")
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        raise ToolError(f"{place}: {missing[0]!r} is missing")
    for name, member in value.items():
        _check(member, properties[name], f"{place}.{name}")


def _within(value: float, least: float | None, most: float | None, what: str) -> None:
    if least is not None and value < least:
        raise ToolError(f"{what} is below {least}")
    if most is not None and value > most:
        raise ToolError(f"{what} is above {most}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    return deepest


def _members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is named twice")
    return members


def _refused(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no JSON")


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)


def _finite(digits: str) -> float:
    if len(digits) > MAX_DIGITS or not math.isfinite(float(digits)):
        raise ValueError("a number is too large")
    return float(digits)
