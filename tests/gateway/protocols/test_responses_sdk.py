"""The official client follows translated and native answers, with its typed events and its accumulating helper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

from serving.gateway import sse
from serving.gateway.errors import ApiError
from serving.gateway.levers import Levers
from serving.gateway.protocols.base import Target
from serving.gateway.protocols.responses import ResponsesAdapter

MakeTarget = Callable[..., Target]
Answer = Callable[[str, dict[str, Any]], bytes]
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}


class City(BaseModel):
    """What the model is to answer with."""

    name: str


@pytest.fixture
def make_client() -> Iterator[Callable[[Target, Answer], openai.OpenAI]]:
    """A client whose requests go through the adapter to a scripted engine: path and body in, answer's bytes out."""
    opened: list[openai.OpenAI] = []

    def make(target: Target, answer: Answer) -> openai.OpenAI:
        def handle(request: httpx2.Request) -> httpx2.Response:
            raw = request.read()
            fields = json.loads(raw)
            adapter = ResponsesAdapter()
            try:
                adapter.view(fields, Levers())
                forward = adapter.forward(raw, fields, target)
            except ApiError as error:
                return httpx2.Response(error.status, content=error.body)
            body = answer(forward.path, json.loads(forward.body))
            if not adapter.is_streaming(fields):
                return httpx2.Response(200, content=forward.reader.whole(body))
            told = b""
            try:
                for i in range(0, len(body), 50):
                    told += forward.reader.feed(body[i : i + 50])
                told += forward.reader.finish()
            except ApiError as error:
                told += forward.reader.error_event(error)
            return httpx2.Response(200, content=told, headers={"content-type": "text/event-stream"})

        transport = httpx2.MockTransport(handle)
        client = openai.OpenAI(
            api_key="k",
            base_url="http://gateway/v1",
            max_retries=0,
            http_client=httpx2.Client(transport=transport),
        )
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()


@pytest.fixture(params=["translated", "native"])
def city_client(
    request: pytest.FixtureRequest,
    make_client: Callable[[Target, Answer], openai.OpenAI],
    make_target: MakeTarget,
    chat_stream: Callable[..., bytes],
) -> openai.OpenAI:
    """To an engine that streams `{"name": "Paris"}`, over chat or as llama.cpp does its own responses."""
    texts = ['{"name"', ': "Paris"}']
    if request.param == "translated":
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        stream = chat_stream({"role": "assistant"}, *({"content": text} for text in texts), usage=usage)
        return make_client(make_target(), lambda path, body: stream)
    bare = {"id": "resp_x", "object": "response", "status": "in_progress"}
    item = {"content": [], "id": "msg_1", "role": "assistant", "status": "in_progress", "type": "message"}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(texts)}
    done = item | {"status": "completed", "content": [part]}
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    response = bare | {"status": "completed", "created_at": 1, "model": "m", "output": [done], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": bare},
        {"type": "response.output_item.added", "item": item},
        {
            "type": "response.content_part.added",
            "item_id": "msg_1",
            "part": {"type": "output_text", "text": ""},
        },
        *({"type": "response.output_text.delta", "item_id": "msg_1", "delta": text} for text in texts),
        {"type": "response.output_text.done", "item_id": "msg_1", "text": "".join(texts)},
        {"type": "response.content_part.done", "item_id": "msg_1", "part": part},
        {"type": "response.output_item.done", "item": done},
        {"type": "response.completed", "response": response, "timings": {}},
    ]
    stream = b"".join(sse.event(json.dumps(event).encode(), event["type"]) for event in events)
    return make_client(make_target(endpoints=("chat", "responses")), lambda path, body: stream)


def test_helper_accumulates_a_stream(city_client: openai.OpenAI) -> None:
    """Snapshots grow with the deltas, and the final response is parsed into the client's own type."""
    with city_client.responses.stream(model="auto", input="Where?", text_format=City) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots == ['{"name"', '{"name": "Paris"}']
    assert final.output_parsed == City(name="Paris")
    assert final.usage is not None
    assert final.usage.total_tokens == 7


def test_typed_events(city_client: openai.OpenAI) -> None:
    """Plain streams give the typed events, numbered."""
    events = list(city_client.responses.create(model="auto", input="Where?", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(text) == '{"name": "Paris"}'
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == '{"name": "Paris"}'


def test_tool_loop(
    make_client: Callable[[Target, Answer], openai.OpenAI],
    make_target: MakeTarget,
    chat_stream: Callable[..., bytes],
) -> None:
    """A call is answered by sending the whole output back, and the engine sees one conversation of chat."""
    bodies: list[dict[str, Any]] = []

    def answer(path: str, body: dict[str, Any]) -> bytes:
        bodies.append(body)
        call = {"index": 0, "id": "call_1", "function": {"name": "f", "arguments": '{"a":1}'}}
        return chat_stream({"reasoning_content": "hm"}, {"tool_calls": [call]}, finish_reason="tool_calls")

    client = make_client(make_target(), answer)
    with client.responses.stream(model="auto", input="go", tools=[FUNCTION]) as stream:  # type: ignore[list-item]
        output = stream.get_final_response().output
    assert [item.type for item in output] == ["reasoning", "function_call"]
    result = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
    told = [
        {"role": "user", "content": "go"},
        *(item.model_dump(exclude_none=True) for item in output),
        result,
    ]
    list(client.responses.create(model="auto", input=told, tools=[FUNCTION], stream=True))  # type: ignore[call-overload]
    function = {"name": "f", "arguments": '{"a":1}'}
    assert bodies[1]["messages"] == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    assert bodies[1]["tools"] == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": False}}
    ]


def test_client_raises_when_a_stream_breaks_off(
    make_client: Callable[[Target, Answer], openai.OpenAI],
    make_target: MakeTarget,
    chat_stream: Callable[..., bytes],
) -> None:
    """A truncated answer is never mistaken for a short one."""
    broken = chat_stream({"content": "a"}, finish_reason=None, ends=False)
    client = make_client(make_target(), lambda path, body: broken)
    stream = client.responses.create(model="auto", input="hi", stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        list(stream)


def test_client_gets_refusals_that_name_the_parameter(
    make_client: Callable[[Target, Answer], openai.OpenAI], make_target: MakeTarget
) -> None:
    """State is not kept here, and the client is told what to send instead."""
    client = make_client(make_target(), lambda path, body: b"")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="auto", input="hi", previous_response_id="resp_1")
    assert (refused.value.param, refused.value.code) == ("previous_response_id", "unsupported_parameter")
