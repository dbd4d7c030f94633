"""Text completions: prompts in all their forms, and log-probabilities in the form of that API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.levers import Levers
from serving.gateway.protocols.base import Target
from serving.gateway.protocols.completions import PROMPT_LIST, CompletionsAdapter

MakeTarget = Callable[..., Target]
LEGACY = {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{"a": -1.0}], "text_offset": [0]}


def forward(target: Target, **fields: Any) -> tuple[dict[str, Any], Any]:
    """The upstream's body, parsed, and the reader."""
    fields = {"prompt": "x", "model": "auto"} | fields
    sent = CompletionsAdapter().forward(json.dumps(fields).encode(), fields, target)
    assert sent.path == "/v1/completions"
    return json.loads(sent.body), sent.reader


@pytest.mark.parametrize(
    ("prompt", "turns", "num_chars"),
    [
        ("abc", ("abc",), 3),
        (["abc"], ("abc",), 3),
        (["abc", "d"], ("abc", "d"), 4),
        ([1, 2, 3], ("",), 12),
        ([[1, 2], [3]], ("", ""), 12),
    ],
)
def test_prompt_forms(prompt: Any, turns: tuple[str, ...], num_chars: int) -> None:
    """Texts are read; token ids count four characters each."""
    seen = CompletionsAdapter().view({"prompt": prompt}, Levers())
    assert (seen.turns, seen.num_chars) == (turns, num_chars)
    assert (PROMPT_LIST in seen.parameters) is (len(turns) > 1)


@pytest.mark.parametrize("prompt", [None, [], 1, {}, ["a", 1]])
def test_other_prompts_are_refused(prompt: Any) -> None:
    """A 400 that names the parameter."""
    with pytest.raises(ApiError) as refused:
        CompletionsAdapter().view({"prompt": prompt}, Levers())
    assert refused.value.param == "prompt"


@pytest.mark.parametrize(
    ("logprobs", "needs"), [(None, False), (False, False), (0, True), (True, True), (2, True)]
)
def test_logprobs_are_a_need_even_without_alternatives(logprobs: Any, needs: bool) -> None:
    """`0` asks for the chosen tokens' log-probabilities."""
    assert CompletionsAdapter().view({"prompt": "x", "logprobs": logprobs}, Levers()).needs_logprobs is needs


@pytest.mark.parametrize(
    ("logprobs", "sent", "top"), [(0, 1, None), (1, 1, [{"a": -1.0}]), (2, 2, [{"a": -1.0}])]
)
def test_chat_shaped_logprobs_are_rewritten(
    make_target: MakeTarget, logprobs: int, sent: int, top: list[dict[str, float]] | None
) -> None:
    """llama.cpp sends chat's form here, and none at all for 0; an engine's right form stays."""
    body, reader = forward(make_target(), logprobs=logprobs)
    assert body["logprobs"] == sent
    entry = {"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "a", "logprob": -1.0}]}
    answer = {"choices": [{"index": 0, "logprobs": {"content": [entry]}}, {"index": 1, "logprobs": LEGACY}]}
    told = json.loads(reader.whole(json.dumps(answer).encode()))
    assert [choice["logprobs"] for choice in told["choices"]] == [LEGACY | {"top_logprobs": top}] * 2


def test_offsets_count_over_a_stream(
    make_target: MakeTarget, read_stream: Callable[..., bytes], parse_events: Callable[..., Any]
) -> None:
    """`text_offset` is where a token begins in the text of its choice, however the stream mixes the choices."""
    _, reader = forward(make_target(), logprobs=1, stream=True, n=2)
    events = b""
    for index, token in ((0, "ab"), (1, "x"), (0, "c"), (1, "yz"), (0, "d")):
        logprobs = {"content": [{"token": token, "logprob": -1.0, "top_logprobs": []}]}
        choice = {"index": index, "text": token, "logprobs": logprobs, "finish_reason": None}
        events += b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode()
    told = parse_events(read_stream(reader, events + b"data: [DONE]\n\n"))
    offsets: dict[int, list[int]] = {0: [], 1: []}
    for event in told:
        offsets[event["choices"][0]["index"]] += event["choices"][0]["logprobs"]["text_offset"]
    assert offsets == {0: [0, 2, 3], 1: [0, 1]}


def test_every_prompt_has_its_choices(make_target: MakeTarget) -> None:
    """Two prompts of two choices are four answers to wait for."""
    _, reader = forward(make_target(), prompt=["a", "b"], n=2, stream=True)
    for index in range(3):
        choice = {"index": index, "text": "x", "finish_reason": "stop"}
        reader.feed(b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode())
    with pytest.raises(ApiError) as error:
        reader.finish()
    assert error.value.code == "stream_interrupted"


def test_several_choices_are_counted(make_target: MakeTarget) -> None:
    """As in chat, through a stream where only that counts them."""
    body, _ = forward(make_target(counts_one_choice=True), n=2)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
