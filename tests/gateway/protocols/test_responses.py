"""The Responses adapter: what the router learns, and which way the request goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from router.arms import Effort
from serving.gateway.arms import arms_of
from serving.gateway.errors import ApiError
from serving.gateway.levers import Levers
from serving.gateway.protocols.base import Target
from serving.gateway.protocols.responses import ResponsesAdapter
from serving.gateway.protocols.responses_answer import TranslatingReader
from serving.gateway.protocols.responses_native import ResponsesReader
from serving.settings import Settings

MakeTarget = Callable[..., Target]
NATIVE = ("chat", "responses")
ADAPTER = ResponsesAdapter(new_id=lambda: "1", wall_clock=lambda: 9.5)


def view(**fields: Any) -> Any:
    """The view of a request with these members."""
    return ADAPTER.view({"input": "hi"} | fields, Levers(wanted_arm="full", session="s"))


def forward(target: Target, **fields: Any) -> tuple[str, dict[str, Any], Any]:
    """The upstream's path and body, parsed, and the reader."""
    fields = {"model": "auto", "input": "hi"} | fields
    sent = ADAPTER.forward(json.dumps(fields).encode(), fields, target)
    return sent.path, json.loads(sent.body), sent.reader


def test_view_of_a_conversation() -> None:
    """The same as of the same request to chat."""
    seen = view(
        model="full",
        instructions="be brief",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
            {
                "type": "reasoning",
                "id": "r",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}],
            },
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "sunny"},
        ],
        tools=[{"type": "function", "name": "f", "parameters": {}}],
        text={"format": {"type": "json_schema", "name": "n", "schema": {}}},
        reasoning={"effort": "low"},
        include=["message.output_text.logprobs"],
        max_output_tokens=9,
        service_tier="flex",
        parallel_tool_calls=False,
    )
    assert (seen.endpoint, seen.model, seen.turns, seen.system) == (
        "responses",
        "full",
        ("weather?",),
        "be brief",
    )
    assert (seen.num_tools, seen.is_tool_loop) == (1, True)
    assert (seen.needs_schema, seen.needs_logprobs) == (True, True)
    assert (seen.max_output_tokens, seen.max_effort, seen.service_tier) == (9, Effort.LOW, "flex")
    assert (seen.wanted_arm, seen.session) == ("full", "s")
    assert {"parallel_tool_calls", "response_format", "max_completion_tokens"} <= seen.parameters
    assert seen.num_chars > len("weather?be briefsunny")


def test_images_are_a_need() -> None:
    """A tier that cannot see is not asked to."""
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}
    assert view(input=[image]).modalities == {"text", "image"}


def test_what_chat_cannot_say_is_a_need() -> None:
    """So that of two tiers the one with a Responses API of its own is chosen."""
    seen = view(tools=[{"type": "web_search"}], truncation="auto")
    assert {"tools[]", "truncation"} <= seen.parameters
    assert not {"tools[]", "truncation"} & view(tools=[{"type": "function", "name": "f"}]).parameters


def test_tiers_without_the_api_do_not_heed_what_chat_cannot_say(make_target: MakeTarget) -> None:
    """The router knows it from their capabilities, and sends such a request where it is understood."""
    settings = Settings.model_validate(
        {
            "tiers": {
                name: {
                    "engine": {"type": "external", "urls": [f"http://{name}"]},
                    "price": {"input": 1, "output": 1},
                }
                for name in ("own", "chat")
            }
        }
    )
    engines = {"own": make_target(endpoints=NATIVE).engine, "chat": make_target(endpoints=("chat",)).engine}
    can = {arm.name: arm.capabilities for arm in arms_of(settings, engines)}
    needs = view(tools=[{"type": "web_search"}]).parameters
    assert "responses" in can["chat"].endpoints
    assert needs & can["chat"].unsupported_parameters == {"tools[]"}
    assert not needs & can["own"].unsupported_parameters


def test_native_request_passes_with_its_bytes(make_target: MakeTarget) -> None:
    """The model's name changes, nothing is stored anywhere, and `service_tier` is ours."""
    fields = {"tools": [{"type": "web_search"}], "truncation": "auto", "top_k": 3, "service_tier": "flex"}
    path, body, reader = forward(make_target(endpoints=NATIVE), **fields)
    assert path == "/v1/responses"
    del fields["service_tier"]
    assert body == {"model": "engine-model", "input": "hi", "store": False, **fields}
    assert isinstance(reader, ResponsesReader)


def test_arm_speaks_the_engines_language(make_target: MakeTarget) -> None:
    """What an arm merges into a chat request has other names here; a summary that was asked for stays asked for."""
    arm = {"reasoning_effort": "medium", "max_completion_tokens": 50, "top_k": 3}
    fields = {"reasoning": {"effort": "high", "summary": "auto"}}
    _, body, _ = forward(make_target(endpoints=NATIVE, request=arm), **fields)
    assert body["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert (body["max_output_tokens"], body["top_k"]) == (50, 3)
    assert "reasoning_effort" not in body
    path, body, _ = forward(make_target(request=arm), reasoning={"effort": "high"})
    assert (path, body["reasoning_effort"]) == ("/v1/chat/completions", "medium")
    assert (body["max_completion_tokens"], body["top_k"]) == (50, 3)


def test_request_is_translated_for_an_engine_with_chat_alone(make_target: MakeTarget) -> None:
    """Messages for items, and the stream's usage asked for."""
    path, body, reader = forward(
        make_target(), instructions="be", stream=True, max_output_tokens=9, store=False
    )
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "engine-model",
        "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
    }
    assert isinstance(reader, TranslatingReader)


def test_translated_request_leaves_out_what_its_engine_does_not_know(make_target: MakeTarget) -> None:
    """What the gateway honours itself, and defaults, as in chat."""
    target = make_target(unsupported_parameters=frozenset({"metadata", "reasoning_effort", "verbosity"}))
    _, body, _ = forward(
        target,
        metadata={"a": "b"},
        reasoning={"effort": "low"},
        text={"verbosity": "medium"},
        service_tier="flex",
    )
    assert body == {"model": "engine-model", "messages": [{"role": "user", "content": "hi"}]}


def test_logprobs_are_asked_for_as_in_chat(make_target: MakeTarget) -> None:
    """At least one alternative, without which llama.cpp gives none."""
    _, body, _ = forward(make_target(), include=["message.output_text.logprobs"])
    assert (body["logprobs"], body["top_logprobs"]) == (True, 1)


def test_what_chat_cannot_say_is_refused(make_target: MakeTarget) -> None:
    """A 400 that names the place, never a silent omission."""
    with pytest.raises(ApiError) as refused:
        forward(make_target(), tools=[{"type": "web_search"}])
    assert (refused.value.status, refused.value.param) == (400, "tools[0].type")


def test_answer_echoes_the_request(make_target: MakeTarget) -> None:
    """Ids and time come from the adapter where the engine gives none."""
    target = make_target(service_tier="default")
    _, _, reader = forward(target, temperature=0.5, text={"verbosity": "low"}, tool_choice="none")
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    answer = json.loads(reader.whole(json.dumps({"choices": [choice]}).encode()))
    assert (answer["id"], answer["created_at"], answer["service_tier"]) == ("resp_1", 9, "default")
    assert (answer["temperature"], answer["tool_choice"], answer["store"]) == (0.5, "none", False)
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "low"}


def test_named_function_is_forced_as_in_chat(make_target: MakeTarget) -> None:
    """Where an engine has to be helped to call at once, a translated request gets that help too."""
    tools = [{"type": "function", "name": name, "parameters": {}} for name in "fg"]
    target = make_target(forced_call_prefix="<tool_call>")
    _, body, _ = forward(target, tools=tools, tool_choice={"type": "function", "name": "g"})
    assert [tool["function"]["name"] for tool in body["tools"]] == ["g"]
    assert body["tool_choice"] == "required"
    assert body["messages"][-1] == {"role": "assistant", "content": "<tool_call>"}
