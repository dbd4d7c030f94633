"""A JSON body parsed once, and changed without being written anew: members are replaced in the client's own bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from serving.gateway.errors import ApiError, invalid

REMOVED: Final = object()
"""As a replacement: the member goes."""

# A string (unrolled, so that a megabyte of base64 is one step), a bracket, a comma or a colon.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)


def parse_object(raw: bytes) -> dict[str, Any]:
    """The request's JSON object.

    Raises:
        ApiError: 400, naming the line where the JSON breaks off.
    """
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The request body is not valid JSON: {error}", None, "invalid_json") from None
    if not isinstance(fields, dict):
        raise invalid("The request body must be a JSON object.", None, "invalid_json")
    return fields


def splice(raw: bytes, fields: Mapping[str, Any], replacements: Mapping[str, Any]) -> bytes:
    """`raw` with top-level members replaced, added, or removed; every other byte stays as the client wrote it.

    Args:
        raw: a JSON object that parses to `fields`.
        fields: that object.
        replacements: name → new value (anything orjson writes), or `REMOVED`.
    """
    present = [name for name in replacements if name in fields]
    added = [
        orjson.dumps(name) + b":" + orjson.dumps(value)
        for name, value in replacements.items()
        if name not in fields and value is not REMOVED
    ]
    for name, start, end in sorted(_spans(raw, present), key=lambda span: span[1], reverse=True):
        value = replacements[name]
        if value is REMOVED:
            raw = _without(raw, start, end)
        else:
            raw = raw[:start] + orjson.dumps(name) + b":" + orjson.dumps(value) + raw[end:]
    return _with(raw, b",".join(added)) if added else raw


def _with(raw: bytes, members: bytes) -> bytes:
    opening = raw.index(b"{") + 1
    is_empty = raw[opening:].lstrip()[:1] == b"}"
    return raw[:opening] + members + (b"" if is_empty else b",") + raw[opening:]


def _without(raw: bytes, start: int, end: int) -> bytes:
    """`raw` less the member at `start:end` and one comma beside it."""
    before, after = raw[:start].rstrip(), raw[end:].lstrip()
    if after.startswith(b","):
        return before + after[1:]
    return before.removesuffix(b",") + after


def _spans(raw: bytes, names: list[str]) -> list[tuple[str, int, int]]:
    """Where the top-level members of these names stand: name, start of the name, end of the value."""
    found = [_only_span(raw, name) for name in names]
    if any(span is None for span in found):
        return [span for span in _members(raw) if span[0] in names]
    return [span for span in found if span is not None]


def _only_span(raw: bytes, name: str) -> tuple[str, int, int] | None:
    """The member's place where its name stands only once in all of `raw`, which saves reading every byte of it.

    None where the name is nested as well, or could be written with escapes.
    """
    quoted = orjson.dumps(name)
    start = raw.find(quoted)
    if start < 0 or raw.find(quoted, start + 1) >= 0 or b"\\u00" in raw or raw[start - 1 : start] == b"\\":
        return None
    colon = raw.find(b":", start + len(quoted))
    if raw[start + len(quoted) : colon].strip():
        return None
    return name, start, _end_of_value(raw, colon + 1)


def _end_of_value(raw: bytes, position: int) -> int:
    depth = 0
    for match in _TOKEN.finditer(raw, position):
        token = raw[match.start()]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth <= 0:
                return match.end() if depth == 0 else _rstrip(raw, match.start())
        elif depth == 0:
            return match.end() if token == 0x22 else _rstrip(raw, match.start())
    return len(raw)


def _rstrip(raw: bytes, end: int) -> int:
    """`end` moved back over white space: the end of a number or a word."""
    while raw[end - 1 : end].isspace():
        end -= 1
    return end


def _members(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Every top-level member, found by reading all of `raw`."""
    position = raw.index(b"{") + 1
    while match := _TOKEN.search(raw, position):
        if raw[match.start()] == 0x7D:  # }
            return
        if raw[match.start()] == 0x22:  # the name
            name = orjson.loads(match.group())
            end = _end_of_value(raw, raw.index(b":", match.end()) + 1)
            yield name, match.start(), end
            position = end
        else:
            position = match.end()


def require(fields: Mapping[str, Any], name: str, kind: type | tuple[type, ...], told: str) -> Any:
    """`fields[name]` where it is a `kind`; None where it is absent or null.

    Raises:
        ApiError: 400 that names the parameter and what it must be (`told`).
    """
    value = fields.get(name)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if value is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
        return value
    raise ApiError(400, f"`{name}` must be {told}.", param=name, code="invalid_type")
