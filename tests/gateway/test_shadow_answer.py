"""The text of an answer, out of the bytes that a client was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from serving.gateway.shadow_answer import MAX_OVERHEARD_BYTES, Overheard, text_of


def whole(**choice: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, **choice}]}).encode()


def stream(*deltas: dict[str, Any]) -> bytes:
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    told = [json.dumps(event) for event in [*events, {"choices": [], "usage": {}}]]
    return "".join(f"data: {data}\n\n" for data in [*told, "[DONE]"]).encode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (whole(message={"role": "assistant", "content": " four "}), "four"),
        (whole(text="four"), "four"),
        (stream({"role": "assistant", "content": ""}, {"content": "fo"}, {"content": "ur"}, {}), "four"),
        (
            b": waiting\n\n" + stream({"content": "fo"}, {"reasoning_content": "hm"}, {"content": "ur"}),
            "four",
        ),
        (b'data: {"choices":[{"index":0,"text":"four"}]}\n\ndata: [DONE]\n\n', "four"),
        (whole(message={"content": None, "tool_calls": [{"id": "1"}]}), None),
        (whole(message={"content": None, "refusal": "no"}), None),
        (stream({"content": "fo"}, {"tool_calls": [{"index": 0}]}), None),
        (whole(message={"content": ""}), None),
        (whole(message={"content": [{"type": "text"}]}), None),
        (b'{"choices": 3}', None),
        (b'{"choices": [3]}', None),
        (b'{"error": {"message": "no"}}', None),
        (b"[]", None),
        (b"{", None),
        (b"", None),
    ],
)
def test_the_text_of_an_answer(body: bytes, text: str | None) -> None:
    """Whole and streamed, chat and text; None for what is no text, and no error for what is no answer."""
    assert text_of(body) == text


def test_what_was_overheard_is_put_together() -> None:
    """Wherever the pieces were cut."""
    body, overheard = stream({"content": "fö"}, {"content": "ur"}), Overheard()
    for i in range(0, len(body), 7):
        overheard.hear(body[i : i + 7])
    assert overheard.text == "föur"


def test_what_is_too_long_is_let_go() -> None:
    """At once, and for good: half an answer would be compared as if it were one."""
    overheard = Overheard()
    overheard.hear(whole(text="x" * (MAX_OVERHEARD_BYTES - 100)))
    assert overheard.text
    overheard.hear(b" " * 200)
    assert overheard.text is None
    overheard.hear(whole(text="four"))
    assert overheard.text is None
