"""Chat: what the router learns of a request, and what differs in the body that the engine gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from router.arms import Effort
from serving.gateway.errors import ApiError
from serving.gateway.levers import Levers
from serving.gateway.protocols.base import Target
from serving.gateway.protocols.chat import ChatAdapter
from serving.ledger.records import Usage

HI = [{"role": "user", "content": "hi"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
MakeTarget = Callable[..., Target]


def view(**fields: Any) -> Any:
    """The view of a request with these members."""
    return ChatAdapter().view({"messages": HI} | fields, Levers())


def forward(target: Target, **fields: Any) -> tuple[dict[str, Any], Any]:
    """The upstream's body, parsed, and the reader."""
    fields = {"messages": HI, "model": "auto"} | fields
    sent = ChatAdapter().forward(json.dumps(fields).encode(), fields, target)
    assert sent.path == "/v1/chat/completions"
    return json.loads(sent.body), sent.reader


def test_view_of_a_conversation() -> None:
    """The task is in all user turns; system text, tools and modalities are told apart, in every form of content."""
    seen = view(
        model="full",
        messages=[
            {"role": "system", "content": "be"},
            {"role": "developer", "content": [{"type": "text", "text": "brief"}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "what"}, IMAGE, {"type": "text", "text": "is it"}],
            },
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "a cat"},
        ],
        tools=[TOOL, TOOL],
        max_completion_tokens=9,
        max_tokens=5,
        n=2,
        logprobs=True,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        reasoning_effort="low",
        service_tier="scale",
        prompt_cache_key="key",
    )
    assert seen.model == "full"
    assert seen.turns == ("what\nis it",)
    assert seen.system == "be\nbrief"
    assert seen.modalities == {"text", "image"}
    assert (seen.num_tools, seen.is_tool_loop) == (2, True)
    assert (seen.max_output_tokens, seen.num_choices) == (9, 2)
    assert (seen.needs_schema, seen.needs_logprobs) == (True, True)
    assert (seen.max_effort, seen.service_tier, seen.session) == (Effort.LOW, "priority", "key")
    assert seen.num_chars > len("bebriefwhat\nis ita cat")


def test_view_of_the_plainest_request() -> None:
    """Nothing is needed that was not asked for."""
    seen = view()
    assert (seen.endpoint, seen.model, seen.turns, seen.num_chars) == ("chat", "auto", ("hi",), 2)
    assert (seen.is_tool_loop, seen.needs_schema, seen.needs_logprobs) == (False, False, False)
    assert seen.num_tools == 0
    assert (seen.max_effort, seen.max_output_tokens, seen.session) == (None, None, None)


def test_levers_reach_the_view() -> None:
    """A session named in a header goes before the body's cache key."""
    levers = Levers(wanted_arm="full", max_cost=0.5, min_quality=0.9, session="s")
    seen = ChatAdapter().view({"messages": HI, "prompt_cache_key": "key"}, levers)
    assert (seen.wanted_arm, seen.max_cost, seen.min_quality, seen.session) == ("full", 0.5, 0.9, "s")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [*HI, {"content": "x"}]}, "messages[1]"),
        ({"model": 1}, "model"),
        ({"stream": "yes", "stream_options": {}}, "stream"),
        ({"tools": {}}, "tools"),
        ({"response_format": "json"}, "response_format"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"logprobs": 1}, "logprobs"),
        ({"service_tier": "gold"}, "service_tier"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_malformed_parameter_is_named(fields: dict[str, Any], param: str) -> None:
    """What the gateway itself reads, it checks."""
    with pytest.raises(ApiError) as refused:
        view(**fields)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_body_keeps_what_it_does_not_know(make_target: MakeTarget) -> None:
    """Only the model's name changes; `service_tier` is ours."""
    body, _ = forward(make_target(), top_k=3, service_tier="flex", messages=[*HI, {"role": "x", "y": 1}])
    assert body == {"messages": [*HI, {"role": "x", "y": 1}], "model": "engine-model", "top_k": 3}


def test_arm_adds_to_the_body(make_target: MakeTarget) -> None:
    """What an arm merges in goes before what the client said."""
    body, _ = forward(make_target(request={"reasoning_effort": "low"}), reasoning_effort="high")
    assert body["reasoning_effort"] == "low"


def test_parameters_that_ask_for_nothing_stay_behind(make_target: MakeTarget) -> None:
    """An engine that knows no such parameter is not bothered with its default, nor with what the gateway honours."""
    target = make_target(
        unsupported_parameters=frozenset({"store", "metadata", "reasoning_effort", "seed", "verbosity"})
    )
    body, _ = forward(
        target, store=False, metadata={"a": "b"}, reasoning_effort="high", seed=None, verbosity="low"
    )
    assert body == {"messages": HI, "model": "engine-model", "verbosity": "low"}


@pytest.mark.parametrize("asked", [None, {"include_usage": False}, {"include_obfuscation": True}])
def test_usage_of_a_stream_is_always_asked_for(make_target: MakeTarget, asked: dict[str, Any] | None) -> None:
    """The ledger needs it; the client's other options stay."""
    body, _ = forward(make_target(), stream=True, stream_options=asked)
    assert body["stream_options"] == {**(asked or {}), "include_usage": True}


@pytest.mark.parametrize(("asked", "sent"), [(None, 1), (0, 1), (3, 3)])
def test_logprobs_come_with_the_alternatives_asked_for(
    make_target: MakeTarget, asked: int | None, sent: int
) -> None:
    """llama.cpp gives nothing for 0 and 20 for absent; the client sees what OpenAI promises, without token ids."""
    body, reader = forward(make_target(), logprobs=True, top_logprobs=asked)
    assert body["top_logprobs"] == sent
    top = [{"id": i, "token": str(i), "logprob": -i} for i in range(20)]
    entry = {"id": 1, "token": "a", "logprob": -1.0, "top_logprobs": top}
    answer = {"choices": [{"logprobs": {"content": [entry]}}, {"logprobs": None}, {}]}
    told = json.loads(reader.whole(json.dumps(answer).encode()))
    shown = told["choices"][0]["logprobs"]["content"][0]
    assert shown == {
        "token": "a",
        "logprob": -1.0,
        "top_logprobs": [{"token": str(i), "logprob": -i} for i in range(asked or 0)],
    }


def test_several_choices_are_asked_for_as_a_stream_where_only_that_counts_them(
    make_target: MakeTarget, chat_stream: Callable[..., bytes]
) -> None:
    """llama.cpp's usage of a whole answer counts the first choice alone, that of a stream each of them."""
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    body, reader = forward(make_target(counts_one_choice=True), n=2)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    second = {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]}
    stream = chat_stream({"content": "a"}, second, {"choices": [], "usage": usage}, usage=usage)
    answer = json.loads(reader.whole(stream))
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["a", "b"]
    assert reader.usage == Usage(prompt_tokens=5, completion_tokens=6)


@pytest.mark.parametrize(("counts_one_choice", "n"), [(True, 1), (True, None), (False, 2)])
def test_answers_that_count_themselves_are_asked_for_whole(
    make_target: MakeTarget, counts_one_choice: bool, n: int | None
) -> None:
    """One choice, or an engine that counts them all, needs no detour."""
    body, _ = forward(make_target(counts_one_choice=counts_one_choice), n=n)
    assert "stream" not in body
