"""The text of an answer: of one that was kept whole, and of one that was overheard on its way to the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from serving.gateway import sse
from serving.gateway.answer_headers import Header
from serving.gateway.exchange import Exchange, Message

MAX_OVERHEARD_BYTES: Final = 2**19
"""A few thousand tokens of a stream."""


class Overheard:
    """What a client is sent, up to `MAX_OVERHEARD_BYTES`; nothing of it where it is more."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._num_left = MAX_OVERHEARD_BYTES

    def hear(self, piece: bytes) -> None:
        """Keep one more piece."""
        self._num_left -= len(piece)
        if self._num_left < 0:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    @property
    def text(self) -> str | None:
        """The text of it; None where there is none."""
        return text_of(b"".join(self._pieces))


class Kept(Exchange):
    """An exchange with nobody: the answer stays here."""

    def __init__(self) -> None:
        super().__init__({"headers": ()}, _never, _nowhere)
        self.body = b""

    async def respond(self, status: int, body: bytes, headers: list[Header]) -> None:
        """Keep the body."""
        self.status = status
        self.body = body
        self.has_ended = True

    @property
    def text(self) -> str | None:
        """The text of it; None where there is none."""
        return text_of(self.body)


async def _never() -> Message:
    raise AssertionError("nobody sends to an exchange with nobody")


async def _nowhere(message: Message) -> None:
    raise AssertionError("nothing is sent to nobody")


def text_of(body: bytes) -> str | None:
    """The text of the one choice of a chat or text completion, whole or streamed; None where it has none."""
    texts = []
    for told in _objects(body):
        choices = told.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            text = _text(choice)
            if text is None:
                return None
            texts.append(text)
    return "".join(texts).strip() or None


def _objects(body: bytes) -> Iterator[dict[str, Any]]:
    pieces = [body] if body.lstrip().startswith(b"{") else map(sse.data_of, sse.split(body))
    for piece in pieces:
        try:
            told = orjson.loads(piece)
        except orjson.JSONDecodeError:
            continue  # `[DONE]`, or a comment
        if isinstance(told, dict):
            yield told


def _text(choice: Any) -> str | None:
    """What a choice, or a chunk of it, adds to the text; None where it answers with something else."""
    if not isinstance(choice, dict):
        return None
    said = choice.get("message", choice.get("delta"))
    if not isinstance(said, dict):
        text = choice.get("text")
    elif said.get("tool_calls") or said.get("function_call") or said.get("refusal"):
        return None
    else:
        text = said.get("content") or ""
    return text if isinstance(text, str) else None
