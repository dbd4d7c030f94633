"""A whole answer put together from a stream is the answer that the engine would have given, with all its tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.protocols.assembled import AssemblingReader
from serving.gateway.protocols.choices import ChoicesReader
from serving.gateway.protocols.completions import LegacyLogprobs

USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def chunk(index: int, **members: Any) -> dict[str, Any]:
    """One chunk of one choice."""
    return {"choices": [{"index": index, "finish_reason": None} | members]}


def reader() -> AssemblingReader:
    """For two choices."""
    return AssemblingReader(ChoicesReader(wants_usage=True, num_choices=2))


def test_choices_are_put_together(chat_stream: Callable[..., bytes]) -> None:
    """Texts join, tool calls join by their index, log-probs are listed, and both choices' tokens are counted."""
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
    logprobs = [{"token": token, "logprob": -1.0, "top_logprobs": []} for token in "ab"]
    stream = chat_stream(
        chunk(1, delta={"role": "assistant", "content": None}),
        chunk(0, delta={"role": "assistant", "content": "a"}, logprobs={"content": logprobs[:1]}),
        chunk(1, delta={"reasoning_content": "hm"}),
        chunk(0, delta={"content": "b"}, logprobs={"content": logprobs[1:]}),
        chunk(1, delta={"tool_calls": [call]}),
        chunk(1, delta={"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
        chunk(1, delta={}, finish_reason="tool_calls"),
        {"choices": [], "usage": USAGE},
        usage=USAGE,
        finish_reason="length",
    )
    told = reader()
    answer = json.loads(told.whole(stream))
    function = {"name": "f", "arguments": '{"a":1}'}
    assert answer == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "engine-model",
        "usage": {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11},
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ab"},
                "logprobs": {"content": logprobs},
                "finish_reason": "length",
            },
            {
                "index": 1,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "hm",
                    "tool_calls": [{"id": "c1", "type": "function", "function": function}],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            },
        ],
    }
    assert told.usage.completion_tokens == 6
    assert told.is_complete


def test_text_completions_are_put_together(chat_stream: Callable[..., bytes]) -> None:
    """Their log-probabilities are lists over tokens, each of which grows."""
    entries = [
        {"token": token, "logprob": -1.0, "top_logprobs": [{"token": "x", "logprob": -2.0}]}
        for token in ("ab", "c")
    ]
    stream = chat_stream(
        chunk(0, text="ab", logprobs={"content": entries[:1]}),
        chunk(1, text="d", logprobs=None),
        chunk(0, text="c", logprobs={"content": entries[1:]}),
        chunk(0, text="", finish_reason="stop") | {"usage": USAGE},
        chunk(1, text="", finish_reason="stop") | {"usage": USAGE},
        finish_reason=None,
    ).replace(b"chat.completion.chunk", b"text_completion")
    events = ChoicesReader(wants_usage=True, num_choices=2, reshape=LegacyLogprobs(1).reshape)
    answer = json.loads(AssemblingReader(events).whole(stream))
    assert answer["object"] == "text_completion"
    assert answer["usage"]["completion_tokens"] == 6
    assert [choice["text"] for choice in answer["choices"]] == ["abc", "d"]
    assert answer["choices"][0]["logprobs"] == {
        "tokens": ["ab", "c"],
        "token_logprobs": [-1.0, -1.0],
        "top_logprobs": [{"x": -2.0}, {"x": -2.0}],
        "text_offset": [0, 2],
    }


def test_stream_that_broke_off_is_no_answer(chat_stream: Callable[..., bytes]) -> None:
    """The client asked for a whole answer: half of one is an error."""
    told = reader()
    with pytest.raises(ApiError) as error:
        told.whole(
            chat_stream(chunk(0, delta={"content": "a"}), chunk(1, delta={"content": "b"}), ends=False)
        )
    assert error.value.code == "stream_interrupted"
    assert not told.is_complete
