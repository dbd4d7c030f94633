"""A chat answer told as a response: the same text, calls and tokens, in every event that OpenAI's types ask for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.protocols import responses_items
from serving.gateway.protocols.responses_answer import TranslatingReader
from serving.gateway.protocols.responses_object import ResponseObject
from serving.ledger.records import Usage

USAGE = {
    "prompt_tokens": 31,
    "completion_tokens": 4,
    "total_tokens": 35,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
ROLE = {"role": "assistant", "content": None}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}

Stream = Callable[..., bytes]
Read = Callable[..., bytes]
Parse = Callable[[bytes], list[dict[str, Any]]]
Check = Callable[[list[dict[str, Any]]], list[str]]


def make_reader(*, service_tier: str | None = None, num_top: int = 0, **fields: Any) -> TranslatingReader:
    """A reader with ids that count and a clock that stands at 9."""
    numbers = itertools.count(1)
    response = ResponseObject(fields, response_id="resp_0", created_at=5, service_tier=service_tier)
    return TranslatingReader(
        response, new_id=lambda: str(next(numbers)), wall_clock=lambda: 9.5, num_top_logprobs=num_top
    )


def whole(message: dict[str, Any], finish_reason: str = "stop", **members: Any) -> bytes:
    """A chat completion."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, **members}
    return json.dumps({"model": "engine-model", "choices": [choice], "usage": USAGE, "timings": {}}).encode()


def test_whole_answer(check_response: Callable[[dict[str, Any]], Any]) -> None:
    """Reasoning, text and calls are items in this order; usage has its names; the request is echoed."""
    message = {"role": "assistant", "reasoning_content": "hm", "content": "hello", "tool_calls": [CALL]}
    reader = make_reader(
        instructions="be", temperature=0.5, metadata={"a": "b"}, tools=[{"type": "function", "name": "f"}]
    )
    answer = json.loads(reader.whole(whole(message)))
    told = check_response(answer)
    assert (told.id, told.created_at, told.completed_at, told.model) == ("resp_0", 5, 9, "engine-model")
    assert (told.status, told.output_text, told.instructions) == ("completed", "hello", "be")
    assert (told.temperature, told.metadata, told.store) == (0.5, {"a": "b"}, False)
    assert [item.type for item in told.output] == ["reasoning", "message", "function_call"]
    assert answer["output"][0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert answer["output"][2] == {
        "id": "fc_3",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_1",
        "name": "f",
        "arguments": '{"a":1}',
    }
    assert answer["usage"] == {
        "input_tokens": 31,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 35,
    }
    assert reader.usage == Usage(prompt_tokens=31, completion_tokens=4, cached_tokens=30)
    assert "timings" not in answer


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_status_is_the_finish_reasons(
    chat_stream: Stream,
    read_stream: Read,
    parse_events: Parse,
    check_events: Check,
    finish_reason: str,
    status: str,
    reason: str | None,
) -> None:
    """An answer that was cut off is incomplete and says why, whole and streamed alike, and its last item with it."""
    answer = json.loads(make_reader().whole(whole({"content": "hi"}, finish_reason)))
    stream = chat_stream(ROLE, {"content": "hi"}, finish_reason=finish_reason)
    events = parse_events(read_stream(make_reader(), stream))
    assert check_events(events)[-1] == f"response.{status}"
    for response in (answer, events[-1]["response"]):
        assert response["status"] == status
        assert response["output"][0]["status"] == status
        assert (response["incomplete_details"] or {}).get("reason") == reason


def test_stream_of_text(
    chat_stream: Stream, read_stream: Read, parse_events: Parse, check_events: Check
) -> None:
    """The sequence of OpenAI's events; the end holds text and usage, whole."""
    stream = chat_stream(ROLE, {"content": "Hé"}, {"content": "llo"}, usage=USAGE)
    reader = make_reader(service_tier="flex")
    events = parse_events(read_stream(reader, stream))
    assert check_events(events) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    last = events[-1]["response"]
    assert last["output"][0]["content"][0]["text"] == "Héllo"
    assert (last["model"], last["service_tier"]) == ("engine-model", "flex")
    assert events[0]["response"]["model"] == "engine-model"
    assert last["usage"]["total_tokens"] == 35
    assert (reader.num_tokens, reader.is_complete) == (2, True)


def test_stream_of_everything(
    chat_stream: Stream, read_stream: Read, parse_events: Parse, check_events: Check
) -> None:
    """Reasoning under either of its names, text, a refusal, and calls whose arguments come interleaved."""
    stream = chat_stream(
        ROLE,
        {"reasoning_content": "h"},
        {"reasoning": "m"},
        {"content": "text"},
        {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 1, "function": {"name": "g", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]},
        {"refusal": "no"},
        finish_reason="tool_calls",
    )
    for piece in (1, 11, len(stream)):
        reader = make_reader()
        events = parse_events(read_stream(reader, stream, piece=piece))
        check_events(events)
        output = events[-1]["response"]["output"]
        kinds = ["reasoning", "message", "function_call", "function_call", "message"]
        assert [item["type"] for item in output] == kinds
        assert output[0]["content"][0]["text"] == "hm"
        assert [(item["call_id"], item["name"], item["arguments"]) for item in output[2:4]] == [
            ("call_1", "f", '{"a":1}'),
            (output[3]["call_id"], "g", "{}"),
        ]
        assert output[4]["content"] == [{"type": "refusal", "refusal": "no"}]
        assert reader.num_tokens == 9


def test_whole_and_stream_are_one_answer(chat_stream: Stream, read_stream: Read, parse_events: Parse) -> None:
    """The last event's response is what the same answer would be without a stream."""
    message = {"reasoning": "hm", "content": "hello", "tool_calls": [CALL]}
    streamed = (
        {"reasoning": "hm"},
        {"content": "hel"},
        {"content": "lo"},
        {"tool_calls": [CALL | {"index": 0}]},
    )
    events = parse_events(read_stream(make_reader(), chat_stream(*streamed, usage=USAGE)))
    assert events[-1]["response"] == json.loads(make_reader().whole(whole(message)))


def test_logprobs_stand_beside_their_text(
    chat_stream: Stream, read_stream: Read, parse_events: Parse, check_events: Check
) -> None:
    """In each delta and in the part, with no more alternatives than were asked for."""
    top = [{"id": 1, "token": token, "bytes": [97], "logprob": -1.0} for token in "abc"]
    entry = {"id": 1, "token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": top}
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [entry]}, "finish_reason": None}
    for num_top in (0, 2):
        stream = chat_stream({"choices": [choice]}, {"choices": [choice]})
        events = parse_events(read_stream(make_reader(num_top=num_top), stream))
        check_events(events)
        alternatives = [{"token": token, "bytes": [97], "logprob": -1.0} for token in "ab"[:num_top]]
        shown = {"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": alternatives}
        deltas = [event for event in events if event["type"].endswith(".delta")]
        assert [event["logprobs"] for event in deltas] == [[shown], [shown]]
        assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == [shown, shown]


def test_engine_without_usage(chat_stream: Stream, read_stream: Read, parse_events: Parse) -> None:
    """What the engine does not count is null, never zero."""
    events = parse_events(read_stream(make_reader(), chat_stream({"content": "a"})))
    assert events[-1]["response"]["usage"] is None


def test_stream_without_end_marker_is_completed(chat_stream: Stream, parse_events: Parse) -> None:
    """A finish reason says that the answer is whole."""
    reader = make_reader()
    head = reader.feed(chat_stream({"content": "a"}, ends=False))
    assert parse_events(head + reader.finish())[-1]["type"] == "response.completed"
    assert reader.is_complete


def test_stream_that_breaks_off(chat_stream: Stream, parse_events: Parse, check_events: Check) -> None:
    """The error event makes OpenAI's clients raise; `response.failed` ends the response, with what there was of it."""
    reader = make_reader()
    head = reader.feed(chat_stream(ROLE, {"content": "a"}, finish_reason=None, ends=False))
    with pytest.raises(ApiError) as error:
        reader.finish()
    events = parse_events(head + reader.error_event(error.value))
    assert check_events(events)[-2:] == ["error", "response.failed"]
    assert events[-2]["code"] == events[-2]["error"]["code"] == "stream_interrupted"
    failed = events[-1]["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert failed["output"][0]["content"][0]["text"] == "a"
    assert not reader.is_complete


def test_answer_is_bounded(monkeypatch: pytest.MonkeyPatch, chat_stream: Stream) -> None:
    """The text is kept for the last events, so an engine without end cannot be followed without end."""
    monkeypatch.setattr(responses_items, "MAX_TEXT_CHARS", 10)
    reader = make_reader()
    reader.feed(chat_stream({"content": "x" * 6}, finish_reason=None, ends=False))
    with pytest.raises(ApiError) as error:
        reader.feed(chat_stream({"reasoning": "x" * 5}, finish_reason=None, ends=False))
    assert error.value.status == 502


@pytest.mark.parametrize("body", [b"<html>", b'{"error":{"message":"x"}}', b'{"choices":[]}'])
def test_whole_answer_that_is_none_is_an_error(body: bytes) -> None:
    """The upstream failed, whatever its status was."""
    with pytest.raises(ApiError) as error:
        make_reader().whole(body)
    assert error.value.status == 502


def test_comments_pass(chat_stream: Stream, read_stream: Read) -> None:
    """An engine's keep-alive keeps the client's connection alive too."""
    assert read_stream(make_reader(), b": ping\n\n" + chat_stream({"content": "a"})).startswith(b": ping\n\n")
