"""Answers made of choices reach the client as the engine wrote them, less what is not for it, and are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.protocols.choices import ChoicesReader
from serving.ledger.records import Usage

USAGE = {
    "prompt_tokens": 31,
    "completion_tokens": 2,
    "total_tokens": 33,
    "prompt_tokens_details": {"cached_tokens": 30},
}
TIMINGS = {"predicted_n": 2, "draft_n": 8, "draft_n_accepted": 5}
ROLE = {"role": "assistant", "content": None}

Stream = Callable[..., bytes]
Read = Callable[..., bytes]
Parse = Callable[[bytes], list[dict[str, Any]]]


def chunk(index: int, **members: Any) -> dict[str, Any]:
    """One chunk of one choice."""
    return {"choices": [{"index": index, "finish_reason": None} | members]}


def test_tokens_pass_as_the_bytes_they_are(chat_stream: Stream, read_stream: Read) -> None:
    """Without anything to strip, a stream that comes through is the stream that went in, however it is cut."""
    stream = chat_stream(ROLE, {"content": "Hé"}, {"content": '"usage":{ "error": [DONE]'})
    for piece in (1, 7, len(stream)):
        reader = ChoicesReader(wants_usage=False)
        assert read_stream(reader, stream, piece=piece) == stream
        assert (reader.num_tokens, reader.is_complete) == (2, True)


@pytest.mark.parametrize("wants_usage", [True, False])
def test_usage_is_collected_and_shown_only_where_asked_for(
    chat_stream: Stream, read_stream: Read, parse_events: Parse, wants_usage: bool
) -> None:
    """The usage chunk is for the ledger; a client that did not ask for it may break on its empty choices."""
    stream = chat_stream(ROLE, {"content": "Hi"}, usage=USAGE)
    reader = ChoicesReader(wants_usage=wants_usage)
    events = parse_events(read_stream(reader, stream))
    assert reader.usage == Usage(prompt_tokens=31, completion_tokens=2, cached_tokens=30)
    assert [event["usage"] for event in events if "usage" in event] == ([USAGE] if wants_usage else [])
    assert (events[-1]["choices"] == []) is wants_usage


def test_usage_of_several_choices_is_one_chunk(
    chat_stream: Stream, read_stream: Read, parse_events: Parse
) -> None:
    """llama.cpp sends a usage chunk for each choice: the prompt counts once, what was generated adds up."""
    stream = chat_stream(
        chunk(1, delta=ROLE),
        chunk(1, delta={"content": "b"}),
        chunk(1, delta={}, finish_reason="stop"),
        {"choices": [], "usage": USAGE, "timings": TIMINGS},
        chunk(0, delta={"content": "a"}),
        usage=USAGE,
    )
    reader = ChoicesReader(wants_usage=True, num_choices=2)
    events = parse_events(read_stream(reader, stream))
    told = [event["usage"] for event in events if "usage" in event]
    assert told == [USAGE | {"completion_tokens": 4, "total_tokens": 35}]
    assert events[-1]["choices"] == []
    assert reader.usage.completion_tokens == 4
    assert reader.usage.drafted_tokens == 8


def test_usage_in_last_chunks_of_choices_becomes_a_chunk_of_its_own(
    chat_stream: Stream, read_stream: Read, parse_events: Parse
) -> None:
    """llama.cpp's text completions put it beside the finish reason, which OpenAI's clients do not look at."""
    last = {"usage": USAGE, "timings": TIMINGS}
    stream = chat_stream(
        chunk(0, text="a"),
        chunk(1, text="b"),
        chunk(1, text="", finish_reason="length") | last,
        chunk(0, text="", finish_reason="length") | last,
        finish_reason=None,
    )
    reader = ChoicesReader(wants_usage=True, num_choices=2)
    events = parse_events(read_stream(reader, stream))
    assert ["usage" in event for event in events] == [False] * 4 + [True]
    assert events[-1]["usage"] == USAGE | {"completion_tokens": 4, "total_tokens": 35}
    assert events[-1]["choices"] == []
    assert not any("timings" in event for event in events)


@pytest.mark.parametrize("wants_chunk_usage", [True, False])
def test_usage_so_far_is_not_added_up(
    chat_stream: Stream, read_stream: Read, parse_events: Parse, wants_chunk_usage: bool
) -> None:
    """vLLM's `continuous_usage_stats` repeats the sum in each chunk; counting each would bill an answer many times."""
    stream = chat_stream(
        *(
            chunk(0, delta={"content": "a"}) | {"usage": USAGE | {"completion_tokens": n}}
            for n in range(1, 6)
        ),
        usage=USAGE | {"completion_tokens": 5},
    )
    reader = ChoicesReader(wants_usage=True, wants_chunk_usage=wants_chunk_usage)
    events = parse_events(read_stream(reader, stream))
    assert reader.usage.completion_tokens == 5
    assert sum("usage" in event for event in events) == (6 if wants_chunk_usage else 1)


def test_vendor_members_are_stripped(chat_stream: Stream, read_stream: Read) -> None:
    """An engine's own members stay inside unless they are exposed."""
    vendor = {"timings": TIMINGS, **chunk(0, delta={"content": "a"}, stop_reason=None, token_ids=[1])}
    stream = chat_stream(ROLE, vendor)
    stripped = read_stream(ChoicesReader(wants_usage=False), stream)
    assert b"timings" not in stripped
    assert b"token_ids" not in stripped
    assert read_stream(ChoicesReader(wants_usage=False, expose_vendor_fields=True), stream) == stream


def test_service_tier_is_told_in_each_event(
    chat_stream: Stream, read_stream: Read, parse_events: Parse
) -> None:
    """OpenAI echoes it in every chunk."""
    reader = ChoicesReader(wants_usage=True, service_tier="flex")
    events = parse_events(read_stream(reader, chat_stream(ROLE, {"content": "a"}, usage=USAGE)))
    assert {event["service_tier"] for event in events} == {"flex"}
    assert reader.num_tokens == 1


def test_any_member_of_a_delta_is_progress(chat_stream: Stream) -> None:
    """Reasoning and tool calls count as tokens; the opening role does not."""
    reader = ChoicesReader(wants_usage=False)
    reader.feed(chat_stream(ROLE, finish_reason=None, ends=False))
    assert reader.num_tokens == 0
    reader.feed(chat_stream({"reasoning_content": "hm"}, finish_reason=None, ends=False))
    reader.feed(chat_stream({"tool_calls": [{"index": 0}]}, finish_reason=None, ends=False))
    assert reader.num_tokens == 2


@pytest.mark.parametrize("deltas", [(), (ROLE,), (ROLE, {"content": "a"})])
def test_stream_that_breaks_off_is_an_error(chat_stream: Stream, deltas: tuple[dict[str, Any], ...]) -> None:
    """A stream without a finish reason was cut, even where the connection closed cleanly."""
    reader = ChoicesReader(wants_usage=False)
    reader.feed(chat_stream(*deltas, finish_reason=None, ends=False))
    with pytest.raises(ApiError) as error:
        reader.finish()
    assert error.value.code == "stream_interrupted"
    assert not reader.is_complete


def test_stream_needs_every_choice_finished(chat_stream: Stream) -> None:
    """One finished choice of two is half an answer."""
    reader = ChoicesReader(wants_usage=False, num_choices=2)
    reader.feed(chat_stream({"content": "a"}, chunk(1, delta={"content": "b"}), ends=False))
    with pytest.raises(ApiError):
        reader.finish()


def test_stream_that_lacks_only_its_end_marker_is_completed(chat_stream: Stream) -> None:
    """A finish reason says that the answer is whole; the client gets the marker it waits for."""
    reader = ChoicesReader(wants_usage=True)
    reader.feed(chat_stream({"content": "a"}, usage=USAGE, ends=False))
    assert reader.finish().endswith(b"data: [DONE]\n\n")
    assert reader.is_complete


def test_comments_pass(chat_stream: Stream, read_stream: Read) -> None:
    """An engine's keep-alive keeps the client's connection alive too, and is no token."""
    stream = b": ping\n\n" + chat_stream({"content": "a"})
    reader = ChoicesReader(wants_usage=False)
    assert read_stream(reader, stream) == stream
    assert reader.num_tokens == 1


@pytest.mark.parametrize(
    ("event", "message", "code"),
    [
        (b'data: {"error":{"message":"out of memory","code":"oom"}}\n\n', "out of memory", "oom"),
        (b'data: {"error":{"message":"out of memory","code":500}}\n\n', "out of memory", "upstream_error"),
        (b'data: {"error":"out of memory"}\n\n', "out of memory", "upstream_error"),
    ],
)
def test_error_in_a_stream_is_raised(chat_stream: Stream, event: bytes, message: str, code: str) -> None:
    """It is the upstream that failed, whatever its status was, and nothing after it reaches the client."""
    reader = ChoicesReader(wants_usage=False)
    reader.feed(chat_stream({"content": "a"}, finish_reason=None, ends=False))
    with pytest.raises(ApiError, match=message) as error:
        reader.feed(event)
    assert (error.value.status, error.value.code) == (502, code)


@pytest.mark.parametrize("event", [b"data: <html>\n\n", b"data: [1]\n\n"])
def test_stream_that_begins_with_something_else_is_an_error(event: bytes) -> None:
    """Before the first token every event is read, so that a proxy's error page is not taken for an answer."""
    with pytest.raises(ApiError) as error:
        ChoicesReader(wants_usage=False).feed(event)
    assert error.value.code == "upstream_protocol_error"


def test_error_event_is_what_clients_raise_on() -> None:
    """OpenAI's clients raise on an object with `error` in a stream."""
    event = ChoicesReader(wants_usage=False).error_event(ApiError(502, "broke", code="c"))
    assert json.loads(event.removeprefix(b"data: "))["error"]["message"] == "broke"


def test_whole_answer_is_the_engines_bytes() -> None:
    """With nothing to take out, not a byte changes; the usage is read all the same."""
    body = json.dumps({"choices": [{"index": 0}], "usage": USAGE, "x": 1.0}, indent=1).encode()
    reader = ChoicesReader(wants_usage=False)
    assert reader.whole(body) == body
    assert reader.usage.prompt_tokens == 31
    assert reader.is_complete


def test_whole_answer_is_stripped() -> None:
    """Drafts are known from the timings, and the timings go."""
    reader = ChoicesReader(wants_usage=False, service_tier="priority")
    answer = json.loads(reader.whole(json.dumps({"usage": USAGE, "timings": TIMINGS}).encode()))
    assert answer == {"usage": USAGE, "service_tier": "priority"}
    assert (reader.usage.drafted_tokens, reader.usage.accepted_tokens) == (8, 5)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error":{"message":"x"}}'])
def test_whole_answer_that_is_none_is_an_error(body: bytes) -> None:
    """An empty body, another JSON value and an error with status 200 are the upstream's failure."""
    with pytest.raises(ApiError) as error:
        ChoicesReader(wants_usage=False).whole(body)
    assert error.value.status == 502
