"""What the mock upstream says, rendered beforehand, in OpenAI's shape. Pure."""

from __future__ import annotations

import functools
from typing import Any

import orjson

MODEL = "mock"
CONTEXT_TOKENS = 32_768

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_LAST_CHUNK = b"0\r\n\r\n"


def response(status: str, body: bytes, content_type: str = "application/json") -> bytes:
    """A whole HTTP response; `status` is the code and its phrase."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def error(status: str, message: str) -> bytes:
    """A refusal in OpenAI's envelope."""
    envelope = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return response(status, orjson.dumps({"error": envelope}))


@functools.cache
def models() -> bytes:
    """The answer of `/v1/models`."""
    model = {
        "id": MODEL,
        "object": "model",
        "created": 1,
        "owned_by": "tierwise",
        "max_model_len": CONTEXT_TOKENS,
    }
    return response("200 OK", orjson.dumps({"object": "list", "data": [model]}))


@functools.lru_cache(maxsize=256)
def completion(*, num_tokens: int, num_prompt_tokens: int) -> bytes:
    """A whole chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": " word" * num_tokens},
        "finish_reason": "length",
    }
    body = _envelope("chat.completion", [choice]) | {"usage": _usage(num_tokens, num_prompt_tokens)}
    return response("200 OK", orjson.dumps(body))


@functools.cache
def opening_chunk() -> bytes:
    """The first event of a stream, which names the role and carries no output."""
    return _chunk({"role": "assistant", "content": ""})


@functools.cache
def token_chunk() -> bytes:
    """The event of one token."""
    return _chunk({"content": " word"})


@functools.lru_cache(maxsize=256)
def closing_chunks(*, num_tokens: int, num_prompt_tokens: int, includes_usage: bool) -> bytes:
    """What follows the last token: finish reason, usage where asked for, `[DONE]`, end of the response."""
    chunks = _chunk({}, finish_reason="length")
    if includes_usage:
        envelope = _envelope("chat.completion.chunk", []) | {"usage": _usage(num_tokens, num_prompt_tokens)}
        chunks += _event(orjson.dumps(envelope))
    return chunks + _event(b"[DONE]") + _LAST_CHUNK


def _envelope(kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "chatcmpl-mock", "object": kind, "created": 1, "model": MODEL, "choices": choices}


def _usage(num_tokens: int, num_prompt_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_tokens,
        "total_tokens": num_prompt_tokens + num_tokens,
    }


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(orjson.dumps(_envelope("chat.completion.chunk", [choice])))


def _event(payload: bytes) -> bytes:
    """One server-sent event as one chunk of a chunked response."""
    event = b"data: " + payload + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)
