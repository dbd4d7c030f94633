"""Embeddings: one body in, the engine's body out, the tokens counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.levers import Levers
from serving.gateway.protocols.base import Target
from serving.gateway.protocols.embeddings import EmbeddingsAdapter


@pytest.mark.parametrize(
    ("text", "num_chars"), [("hello", 5), (["ab", "c"], 3), ([1, 2, 3], 12), ([[1, 2], [3]], 8)]
)
def test_view_counts_the_input(text: Any, num_chars: int) -> None:
    """There is no task to judge: only the length matters, and no output is expected."""
    seen = EmbeddingsAdapter().view({"input": text}, Levers())
    assert (seen.endpoint, seen.num_chars, seen.max_output_tokens) == ("embeddings", num_chars, 0)


@pytest.mark.parametrize("text", [None, "", [], 3, {}])
def test_other_inputs_are_refused(text: Any) -> None:
    """A 400 that names the parameter."""
    with pytest.raises(ApiError) as refused:
        EmbeddingsAdapter().view({"input": text}, Levers())
    assert refused.value.param == "input"


def test_answer_is_the_engines_bytes(make_target: Callable[..., Target]) -> None:
    """Vectors are long: they are not written anew."""
    fields = {"model": "auto", "input": "hi", "dimensions": 8}
    sent = EmbeddingsAdapter().forward(json.dumps(fields).encode(), fields, make_target())
    assert sent.path == "/v1/embeddings"
    assert json.loads(sent.body) == fields | {"model": "engine-model"}
    body = b'{ "data": [], "usage": {"prompt_tokens": 3, "total_tokens": 3} }'
    assert sent.reader.whole(body) == body
    assert sent.reader.usage.prompt_tokens == 3
    assert sent.reader.is_complete


def test_answer_that_is_no_json_is_an_error(make_target: Callable[..., Target]) -> None:
    """The upstream failed."""
    reader = EmbeddingsAdapter().forward(b'{"input":"x"}', {"input": "x"}, make_target()).reader
    with pytest.raises(ApiError) as error:
        reader.whole(b"<html>")
    assert error.value.status == 502


def test_embeddings_never_stream() -> None:
    """Even where `stream` is set, which the API does not know."""
    assert not EmbeddingsAdapter().is_streaming({"input": "x", "stream": True})
