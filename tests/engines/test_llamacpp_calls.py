"""Tool calls on the real engine: forced ones are made, parsed, streamed, and of their schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from serving.engines.llamacpp_tools import force_call
from tests.engines.real_engine import CLOCK, QUESTION, WEATHER, RunningEngine

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

PREFIX = "<tool_call>"
NAMED = {"type": "function", "function": {"name": "get_time"}}


def forced(**body: Any) -> dict[str, Any]:
    """A request with these members, changed as the gateway changes it."""
    body = {"messages": [QUESTION], "tools": [WEATHER, CLOCK], "max_tokens": 100, "temperature": 0, **body}
    return {**body, **force_call(body, PREFIX)}


def calls_of(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    message = answer["choices"][0]["message"]
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message["tool_calls"]
    ]


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_required(engine: RunningEngine, temperature: float) -> None:
    """A call is made at once and fits its schema, at any temperature; no text comes before it."""
    for seed in range(2):
        answer = engine.chat(**forced(tool_choice="required", temperature=temperature, seed=seed))
        choice = answer["choices"][0]
        assert choice["finish_reason"] == "tool_calls", choice
        assert not choice["message"]["content"]
        for name, arguments in calls_of(answer):
            assert (name, *arguments) in {("get_weather", "city"), ("get_time", "zone")}
            assert all(isinstance(value, str) for value in arguments.values())
        assert PREFIX not in json.dumps(choice)


def test_named(engine: RunningEngine) -> None:
    """The function that was named is called, though the question asks for the other."""
    answer = engine.chat(**forced(tool_choice=NAMED))
    assert {name for name, _ in calls_of(answer)} == {"get_time"}


def test_allowed(engine: RunningEngine) -> None:
    """Of the tools that were allowed one is called."""
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    answer = engine.chat(**forced(tool_choice=allowed))
    assert {name for name, _ in calls_of(answer)} == {"get_time"}


def test_one_at_a_time(engine: RunningEngine) -> None:
    """`parallel_tool_calls: false` allows a single call, whatever the dice say."""
    for seed in range(3):
        body = forced(tool_choice="required", parallel_tool_calls=False, temperature=1.5, seed=seed)
        assert len(calls_of(engine.chat(**body))) == 1


def test_a_function_without_parameters(engine: RunningEngine) -> None:
    """A tool may take nothing."""
    answer = engine.chat(
        **forced(tools=[{"type": "function", "function": {"name": "now"}}], tool_choice="required")
    )
    assert calls_of(answer)[0][0] == "now"


def test_streamed(engine: RunningEngine) -> None:
    """In a stream the name comes once for each call and the arguments in pieces that join to JSON; no text comes."""
    body = forced(tool_choice="required", stream=True, parallel_tool_calls=False)
    with engine.stream("POST", "/v1/chat/completions", json=body) as response:
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    deltas = [event["choices"][0]["delta"] for event in events]
    assert not any(delta.get("content") for delta in deltas)
    pieces = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert [call["function"]["name"] for call in pieces if "name" in call["function"]] == ["get_weather"]
    assert len(pieces) > 2
    assert [*json.loads("".join(call["function"]["arguments"] for call in pieces))] == ["city"]
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_cut_off(engine: RunningEngine) -> None:
    """Too few tokens for the call end in `length`, not in an error."""
    for max_tokens in (1, 5, 12):
        answer = engine.chat(**forced(tool_choice="required", max_tokens=max_tokens))
        assert answer["choices"][0]["finish_reason"] == "length"


def test_several_choices(engine: RunningEngine) -> None:
    """Each of `n` choices makes its call."""
    answer = engine.chat(**forced(tool_choice="required", n=3, temperature=1))
    assert [len(choice["message"]["tool_calls"]) >= 1 for choice in answer["choices"]] == [True] * 3


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_free_choice_still_talks(engine: RunningEngine, choice: str | None) -> None:
    """Tools that need not be called do not keep the model from answering."""
    body = {"tools": [WEATHER], **({"tool_choice": choice} if choice else {})}
    assert engine.message(**body)["content"]


def test_none_is_kept_to(engine: RunningEngine) -> None:
    """With "none" even a text that begins like a call stays text."""
    answer = engine.message(
        tools=[WEATHER],
        tool_choice="none",
        messages=[{"role": "user", "content": "Repeat: <tool_call>[{}]</tool_call>"}],
    )
    assert not answer.get("tool_calls")


def test_a_loop_of_calls(engine: RunningEngine) -> None:
    """A call and its result go back into the conversation, as OpenAI's clients send them, and the model goes on."""
    body = forced(tool_choice="required", parallel_tool_calls=False)
    first = engine.chat(**body)["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "21 degrees and sunny"}
    conversation = [QUESTION, first, result]
    assert engine.message(messages=conversation, tools=[WEATHER, CLOCK])["content"]
    again = engine.chat(**forced(messages=conversation, tool_choice=NAMED))
    assert calls_of(again)[0][0] == "get_time"


def test_why_a_prefix_is_needed(engine: RunningEngine) -> None:
    """By itself the engine lets a model chat where a call is required; once it does not, `force_call` can go."""
    body = {**forced(), "tool_choice": "required", "max_tokens": 20}
    assert engine.chat(**body)["choices"][0]["message"]["content"], "it begins with the call by itself now"


def test_why_named_tools_are_filtered(engine: RunningEngine) -> None:
    """A named function is taken for "auto" without a word; once it is not, `force_call` can leave the tools alone."""
    message = engine.message(tools=[WEATHER, CLOCK], tool_choice=NAMED)
    assert not message.get("tool_calls"), "it heeds the name now"


def test_responses_api(engine: RunningEngine) -> None:
    """The engine's own Responses API continues the same prefix."""
    answer = engine.post(
        "/v1/responses",
        json={
            "input": [
                QUESTION,
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": PREFIX}],
                },
            ],
            "tools": [{"type": "function", **WEATHER["function"]}],
            "tool_choice": "required",
            "temperature": 0,
            "max_output_tokens": 80,
        },
    ).json()
    call = answer["output"][0]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert "city" in json.loads(call["arguments"])
