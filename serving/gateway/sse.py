"""Server-sent events as bytes: where one ends, and what its data is. Text is never decoded here."""

from __future__ import annotations

import re
from typing import Final

from serving.gateway.errors import ApiError

MAX_EVENT_BYTES: Final = 16 * 2**20
"""An upstream that sends this much without ending an event is not speaking SSE."""

DONE: Final = b"data: [DONE]\n\n"

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventBuffer:
    """Cuts a byte stream at event boundaries, keeping at most one unfinished event."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """The bytes up to the last boundary seen so far; empty while an event is unfinished.

        Raises:
            ApiError: 502 where the unfinished event exceeds `MAX_EVENT_BYTES`.
        """
        data = self._rest + chunk if self._rest else chunk
        if data.endswith(b"\n\n") or data.endswith(b"\r\n\r\n"):
            self._rest = b""
            return data
        end = _last_boundary(data)
        self._rest = data[end:]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise ApiError(502, "The engine sent an event without end.", code="upstream_protocol_error")
        return data[:end]

    def flush(self) -> bytes:
        """What is left when the stream has ended: an event without its blank line, or nothing."""
        rest, self._rest = self._rest, b""
        return rest if rest.strip() else b""


def _last_boundary(data: bytes) -> int:
    if b"\r" not in data:
        return data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
    end = 0
    for match in _BOUNDARY.finditer(data):
        end = match.end()
    return end


def split(events: bytes) -> list[bytes]:
    """Whole events, each with its boundary."""
    pieces = []
    start = 0
    for match in _BOUNDARY.finditer(events):
        pieces.append(events[start : match.end()])
        start = match.end()
    if start < len(events):
        pieces.append(events[start:])
    return pieces


def data_of(event: bytes) -> bytes:
    """The event's data: its `data:` lines, joined; empty for a comment or an event without data."""
    lines = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines)


def event(data: bytes, name: str | None = None) -> bytes:
    """An event with this one line of data."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + data + b"\n\n"
