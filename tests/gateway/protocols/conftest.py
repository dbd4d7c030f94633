"""Targets to forward to, and a client's eye on the events that a reader gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from router.arms import Arm, Capabilities, Price
from serving.engines.base import EngineCapabilities
from serving.gateway.protocols.base import AnswerReader, Target

MakeTarget = Callable[..., Target]
Read = Callable[..., bytes]


@pytest.fixture
def make_target() -> MakeTarget:
    """A target whose engine and arm differ from the plainest in what is named."""

    def make(
        *,
        request: dict[str, Any] | None = None,
        service_tier: str | None = None,
        expose_vendor_fields: bool = False,
        endpoints: tuple[str, ...] = ("chat", "completions", "embeddings"),
        **engine: Any,
    ) -> Target:
        capabilities = EngineCapabilities(
            model_id="engine-model",
            context_tokens=8192,
            num_slots=4,
            endpoints=frozenset(endpoints),
            **engine,
        )
        arm = Arm(
            name="full",
            tier="full",
            price=Price(input=1.0, output=4.0),
            capabilities=Capabilities(context_tokens=8192),
            strength=1,
            request=request or {},
        )
        return Target(
            arm=arm,
            engine=capabilities,
            service_tier=service_tier,
            expose_vendor_fields=expose_vendor_fields,
        )

    return make


@pytest.fixture
def read_stream() -> Read:
    """Feeds a stream to a reader in pieces of so many bytes, and gives all that the client would get."""

    def read(reader: AnswerReader, stream: bytes, *, piece: int = 7) -> bytes:
        pieces = [reader.feed(stream[i : i + piece]) for i in range(0, len(stream), piece)]
        return b"".join(pieces) + reader.finish()

    return read


@pytest.fixture
def parse_events() -> Callable[[bytes], list[dict[str, Any]]]:
    """The JSON of each event of a stream but `[DONE]`."""

    def parse(stream: bytes) -> list[dict[str, Any]]:
        lines = [
            line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")
        ]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    return parse


@pytest.fixture
def chat_stream() -> Callable[..., bytes]:
    """A stream of chat chunks: each argument is a delta, or a whole chunk where it has `choices`."""

    def stream(
        *deltas: dict[str, Any], finish_reason: str | None = "stop", usage: Any = None, ends: bool = True
    ) -> bytes:
        envelope = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 7,
            "model": "engine-model",
        }
        chunks = [
            envelope
            | (
                delta
                if "choices" in delta
                else {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            )
            for delta in deltas
        ]
        if finish_reason is not None:
            chunks.append(envelope | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
        if usage is not None:
            chunks.append(envelope | {"choices": [], "usage": usage})
        events = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
        return "".join([*events, "data: [DONE]\n\n" if ends else ""]).encode()

    return stream


_STREAM_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
def check_response() -> Callable[[dict[str, Any]], Response]:
    """Validates a response object against OpenAI's own types, which its client would not do."""
    return Response.model_validate


@pytest.fixture
def check_events() -> Callable[[list[dict[str, Any]]], list[str]]:
    """Checks the events of a Responses stream, and gives their types.

    Each has every member of OpenAI's type for it; they are numbered from 0; an item is added before anything is said
    of it and closed once; what its deltas amount to is what closes it; the last response holds the closed items.
    """

    def check(events: list[dict[str, Any]]) -> list[str]:
        for event in events:
            assert _STREAM_EVENT.validate_python(event).type == event["type"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
        assert len({event["response"]["id"] for event in events if "response" in event}) == 1
        grown: dict[int, str] = {}
        closed: dict[int, dict[str, Any]] = {}
        for event in events:
            index = event.get("output_index")
            if event["type"] == "response.output_item.added":
                assert index == len(grown)
                grown[index] = ""
            elif event["type"].endswith(".delta"):
                grown[index] += event["delta"]
            elif event["type"] == "response.output_item.done":
                assert index not in closed
                closed[index] = event["item"]
            elif event["type"].endswith((".text.done", "_text.done", "arguments.done")):
                assert event.get("text", event.get("arguments")) == grown[index]
        for index, item in closed.items():
            parts = item.get("content") or [{"text": item.get("arguments")}]
            assert "".join(part.get("text", part.get("refusal")) for part in parts) == grown[index]
        if events[-1]["type"] != "response.failed":
            assert [closed[index] for index in sorted(grown)] == events[-1]["response"]["output"]
        return [event["type"] for event in events]

    return check
