"""Errors keep their class and take OpenAI's shape, whatever shape an engine gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from serving.gateway.errors import ApiError, failed_upstream, rejected_by_upstream

OVERFLOW = {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}


def test_body_and_headers() -> None:
    """The envelope of OpenAI, and `retry-after` in whole seconds of at least one."""
    error = ApiError(429, "slow down", code="rate_limit_exceeded", retry_after_s=0.2, should_retry=True)
    assert json.loads(error.body) == {
        "error": {
            "message": "slow down",
            "type": "invalid_request_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    }
    assert dict(error.headers) == {
        b"retry-after": b"1",
        b"retry-after-ms": b"200",
        b"x-should-retry": b"true",
    }
    assert ApiError(500, "x").kind == "server_error"
    assert ApiError(400, "x").headers == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "bad", "type": "t", "code": "c", "param": "p"}}, ("bad", "t", "c", "p")),
        (
            {"error": {"message": "bad", "code": 400, "type": "invalid_request_error"}},
            ("bad", "invalid_request_error", None, None),
        ),
        (
            {"message": "bad", "object": "error", "type": "BadRequestError", "code": 400},
            ("bad", "BadRequestError", None, None),
        ),
        ({"detail": "bad"}, ("bad", "invalid_request_error", None, None)),
        ({"error": "bad"}, ("bad", "invalid_request_error", None, None)),
        (
            {"error": {**OVERFLOW, "n_ctx": 8192}},
            (OVERFLOW["message"], "invalid_request_error", "context_length_exceeded", "messages"),
        ),
    ],
)
def test_refusal_of_an_engine(body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """OpenAI's envelope, llama.cpp's numbers as codes, vLLM's flat form and FastAPI's `detail` all become one shape."""
    error = rejected_by_upstream(400, json.dumps(body).encode(), "full")
    assert (error.message, error.kind, error.code, error.param) == expected


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error":[]}', b"null"])
def test_refusal_without_words_still_says_who_refused(body: bytes) -> None:
    """An empty or foreign body becomes a sentence of our own."""
    error = rejected_by_upstream(422, body, "full")
    assert error.status == 400, "OpenAI's clients know 422 as 400"
    assert "full" in error.message
    assert "422" in error.message


@pytest.mark.parametrize(("status", "shown"), [(500, 502), (501, 502), (503, 503), (504, 504), (529, 529)])
def test_failure_of_an_engine_shows_no_internals(status: int, shown: int) -> None:
    """Only the statuses that mean something to a client's retry go through, and none of the text."""
    error = failed_upstream(status, "full")
    assert (error.status, error.should_retry) == (shown, False)
