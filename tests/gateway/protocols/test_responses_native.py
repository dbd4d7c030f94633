"""An engine's own responses reach the client, with what llama.cpp leaves out of them put in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.gateway import sse
from serving.gateway.errors import ApiError
from serving.gateway.protocols.responses_native import ResponsesReader
from serving.gateway.protocols.responses_object import ResponseObject
from serving.ledger.records import Usage

Read = Callable[..., bytes]
Parse = Callable[[bytes], list[dict[str, Any]]]
Check = Callable[[list[dict[str, Any]]], list[str]]

BARE = {"id": "resp_x", "object": "response", "status": "in_progress"}
PART = {"type": "output_text", "annotations": [], "logprobs": [], "text": "Hi you"}
MESSAGE = {"type": "message", "status": "completed", "id": "msg_1", "content": [PART], "role": "assistant"}
CALL = {
    "type": "function_call",
    "status": "completed",
    "arguments": '{"a":1}',
    "call_id": "fc_a",
    "name": "f",
}
USAGE = {
    "input_tokens": 31,
    "output_tokens": 3,
    "total_tokens": 34,
    "input_tokens_details": {"cached_tokens": 30},
}
DONE = BARE | {
    "status": "completed",
    "created_at": 7,
    "model": "m",
    "usage": USAGE,
    "output": [MESSAGE, CALL],
}
# As llama.cpp b0 of xllamacpp 2026.10 sends them; the call's events by its source, server-task.cpp.
LLAMA_EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": BARE},
    {"type": "response.in_progress", "response": BARE},
    {
        "type": "response.output_item.added",
        "item": {
            "content": [],
            "id": "msg_1",
            "role": "assistant",
            "status": "in_progress",
            "type": "message",
        },
    },
    {"type": "response.content_part.added", "item_id": "msg_1", "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hi"},
    {"type": "response.output_text.delta", "item_id": "msg_1", "delta": " you"},
    {
        "type": "response.output_item.added",
        "item": CALL | {"arguments": "", "status": "in_progress"},
    },
    {"type": "response.function_call_arguments.delta", "item_id": "fc_a", "delta": '{"a":1}'},
    {"type": "response.output_text.done", "item_id": "msg_1", "text": "Hi you"},
    {"type": "response.content_part.done", "item_id": "msg_1", "part": PART},
    {"type": "response.output_item.done", "item": MESSAGE},
    {"type": "response.output_item.done", "item": CALL},
    {"type": "response.completed", "response": DONE, "timings": {"predicted_n": 3}},
]


def stream_of(events: list[dict[str, Any]], *, is_numbered: bool = False) -> bytes:
    """As an engine sends them; numbered, as OpenAI and vLLM do."""
    told = [event | {"sequence_number": i} for i, event in enumerate(events)] if is_numbered else events
    return b"".join(sse.event(json.dumps(event).encode(), event["type"]) for event in told)


def make_reader(*, max_output_tokens: int | None = None, **settings: Any) -> ResponsesReader:
    """A reader whose clock stands at 9."""
    fields = {"instructions": "be", "max_output_tokens": max_output_tokens}
    response = ResponseObject(
        fields, response_id="resp_0", created_at=5, service_tier=settings.pop("service_tier", None)
    )
    return ResponsesReader(response, max_output_tokens=max_output_tokens, wall_clock=lambda: 9.5, **settings)


def test_llama_events_are_completed(read_stream: Read, parse_events: Parse, check_events: Check) -> None:
    """Numbers, indexes, log-probs and whole response objects, which OpenAI's typed clients rely on."""
    stream = stream_of(LLAMA_EVENTS)
    for piece in (1, 13, len(stream)):
        reader = make_reader(service_tier="default")
        events = parse_events(read_stream(reader, stream, piece=piece))
        assert check_events(events) == [event["type"] for event in LLAMA_EVENTS]
        first, last = events[0]["response"], events[-1]["response"]
        assert (first["id"], first["instructions"], first["service_tier"]) == ("resp_x", "be", "default")
        assert (last["status"], last["completed_at"], last["created_at"]) == ("completed", 9, 7)
        assert [events[i]["output_index"] for i in (2, 5, 6, 7, 10, 11)] == [0, 0, 1, 1, 0, 1]
        assert "timings" not in events[-1]
        assert reader.usage == Usage(prompt_tokens=31, completion_tokens=3, cached_tokens=30)
        assert (reader.num_tokens, reader.is_complete) == (3, True)


def test_answer_as_long_as_allowed_is_incomplete(
    read_stream: Read, parse_events: Parse, check_events: Check
) -> None:
    """llama.cpp calls an answer that it cut off completed."""
    events = parse_events(read_stream(make_reader(max_output_tokens=3), stream_of(LLAMA_EVENTS)))
    assert check_events(events)[-1] == "response.incomplete"
    last = events[-1]["response"]
    assert (last["status"], last["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    answer = json.loads(make_reader(max_output_tokens=3).whole(json.dumps(DONE).encode()))
    assert answer["status"] == "incomplete"


def test_engine_that_says_how_it_ended_is_believed() -> None:
    """An answer that ended by itself on the last token allowed is complete where the engine can tell."""
    body = json.dumps(DONE | {"incomplete_details": None}).encode()
    assert json.loads(make_reader(max_output_tokens=3).whole(body))["status"] == "completed"


def test_whole_answer_is_completed(check_response: Callable[[dict[str, Any]], Any]) -> None:
    """What llama.cpp leaves out of it is put in; what it adds is taken out."""
    answer = json.loads(make_reader().whole(json.dumps(DONE | {"timings": {}}).encode()))
    told = check_response(answer)
    assert (told.id, told.status, told.output_text, told.instructions) == (
        "resp_x",
        "completed",
        "Hi you",
        "be",
    )
    assert "timings" not in answer


def test_numbered_events_pass_as_the_bytes_they_are(read_stream: Read) -> None:
    """Only those that hold a response are written anew, and they say the same."""
    stream = stream_of(LLAMA_EVENTS, is_numbered=True)
    for piece in (1, 13, len(stream)):
        reader = make_reader()
        told = sse.split(read_stream(reader, stream, piece=piece))
        sent = sse.split(stream)
        assert told[2:-1] == sent[2:-1]
        assert json.loads(sse.data_of(told[-1]))["sequence_number"] == len(sent) - 1
        assert (reader.num_tokens, reader.is_complete) == (3, True)
        assert reader.usage.completion_tokens == 3


def test_text_that_looks_like_an_event_is_text(read_stream: Read) -> None:
    """Tokens are counted by the events' types, whatever the model writes."""
    texts = ['"type":"response.x.delta"', "response.output_text.delta", '"response": {']
    deltas = [LLAMA_EVENTS[4] | {"delta": text} for text in texts]
    stream = stream_of([*LLAMA_EVENTS[:4], *deltas, *LLAMA_EVENTS[10:]], is_numbered=True)
    reader = make_reader()
    read_stream(reader, stream, piece=len(stream))
    assert reader.num_tokens == 3


def test_vendor_members_can_be_exposed(read_stream: Read, parse_events: Parse) -> None:
    """Where the operator wants them."""
    reader = make_reader(expose_vendor_fields=True)
    assert parse_events(read_stream(reader, stream_of(LLAMA_EVENTS)))[-1]["timings"] == {"predicted_n": 3}


@pytest.mark.parametrize("is_numbered", [True, False])
@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "oom", "message": "out of memory", "param": None},
        {"type": "error", "error": {"code": "oom", "message": "out of memory"}},
        {"error": {"code": "oom", "message": "out of memory"}, "type": "x"},
        {
            "type": "response.failed",
            "response": BARE | {"status": "failed", "error": {"code": "oom", "message": "out of memory"}},
        },
    ],
)
def test_error_in_a_stream_is_raised_and_told(
    parse_events: Parse, check_events: Check, event: dict[str, Any], is_numbered: bool
) -> None:
    """However the engine says it, the client gets an error and the response's failure, numbered on."""
    reader = make_reader()
    stream = stream_of([*LLAMA_EVENTS[:6], event], is_numbered=is_numbered)
    *sent, failure = sse.split(stream)
    head = b"".join(map(reader.feed, sent))
    with pytest.raises(ApiError, match="out of memory") as error:
        reader.feed(failure)
    assert error.value.code == "oom"
    events = parse_events(head + reader.error_event(error.value))
    assert [event["sequence_number"] for event in events] == list(range(8))
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["id"] == "resp_x"
    if not is_numbered:
        check_events(events)


def test_failure_without_words_is_one(read_stream: Read) -> None:
    """A failed response need not say why."""
    failed = {"type": "response.failed", "response": BARE | {"status": "failed", "error": None}}
    with pytest.raises(ApiError) as error:
        read_stream(make_reader(), stream_of([failed]))
    assert error.value.status == 502


@pytest.mark.parametrize("num_events", [0, 2, len(LLAMA_EVENTS) - 1])
def test_stream_that_breaks_off_is_an_error(read_stream: Read, num_events: int) -> None:
    """Only the event that ends a response ends it."""
    with pytest.raises(ApiError) as error:
        read_stream(make_reader(), stream_of(LLAMA_EVENTS[:num_events]))
    assert error.value.code == "stream_interrupted"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error":{"message":"x"}}', b'{"status":"failed"}'])
def test_whole_answer_that_is_none_is_an_error(body: bytes) -> None:
    """The upstream failed, whatever its status was."""
    with pytest.raises(ApiError) as error:
        make_reader().whole(body)
    assert error.value.status == 502
