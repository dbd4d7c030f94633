"""Server-sent events: cuts a byte stream into the data of its events, wherever the network cut it."""

from __future__ import annotations


class EventStream:
    """An incremental reader. Keeps only the bytes of the event that is not yet complete."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The `data` of every event that `data` completes, in order. Comments and other fields are dropped.

        Lines may end in LF or CRLF. An event with several `data:` lines yields them joined by LF, as the
        standard says (WHATWG HTML, 9.2.6).
        """
        text = self._rest + data
        if b"\r" in text:
            # A CR at the very end may be half a CRLF: it waits for the next read.
            held = text[-1:] if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n") + held
        *complete, self._rest = text.split(b"\n\n")
        return [payload for payload in map(_payload, complete) if payload is not None]


def _payload(event: bytes) -> bytes | None:
    if event.startswith(b"data:") and b"\n" not in event:
        return event[5:].removeprefix(b" ")
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None
