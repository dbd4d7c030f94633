"""A Responses request says the same to chat, and what it cannot say there is named."""

from __future__ import annotations

from typing import Any

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.protocols.responses_request import NATIVE_ONLY, as_chat

USER = {"role": "user", "content": "hi"}
PNG = "data:image/png;base64,AAAA"
FUNCTION = {
    "type": "function",
    "name": "f",
    "description": "d",
    "parameters": {"type": "object"},
    "strict": True,
}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SCHEMA = {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"}


def messages(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    """The messages that these items become, with nothing left over."""
    chat = as_chat({"input": list(items)} | fields)
    assert chat.obstacles == ()
    return chat.fields["messages"]  # type: ignore[no-any-return]


def parameters(**fields: Any) -> dict[str, Any]:
    """The chat parameters that these become, without messages and with nothing left over."""
    chat = as_chat({"input": "hi"} | fields)
    assert chat.obstacles == ()
    return {name: value for name, value in chat.fields.items() if name != "messages"}


def test_text_is_a_user_turn_after_the_instructions() -> None:
    """The shortest request."""
    assert as_chat({"input": "hi", "instructions": "be brief"}).fields == {
        "messages": [{"role": "system", "content": "be brief"}, USER]
    }


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (USER, USER),
        ({"type": "message", "role": "developer", "content": "x"}, {"role": "developer", "content": "x"}),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            USER,
        ),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": PNG, "detail": "low"}]},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}],
            },
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": PNG, "filename": "a.pdf"}]},
            {"role": "user", "content": [{"type": "file", "file": {"file_data": PNG, "filename": "a.pdf"}}]},
        ),
        (
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}],
            },
            {"role": "assistant", "content": "yes"},
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "assistant", "content": "no"},
        ),
        ({"role": "user", "content": []}, {"role": "user", "content": ""}),
        (
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "sunny"}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ),
    ],
)
def test_items_become_messages(item: dict[str, Any], message: dict[str, Any]) -> None:
    """Each item's form in chat; a single text part is a plain string, which every template knows."""
    assert messages(item) == [message]


def test_an_assistants_turn_is_one_message() -> None:
    """Reasoning, text and calls that follow one another are one message; results and the next turn are others."""
    turn = [
        USER,
        {
            "type": "reasoning",
            "id": "r",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        {"role": "assistant", "content": "I look."},
        CALL,
        CALL | {"call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
        CALL | {"call_id": "c3"},
        {"type": "function_call_output", "call_id": "c3", "output": "3"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    assert messages(*turn) == [
        USER,
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [CHAT_CALL, CHAT_CALL | {"id": "c2"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL | {"id": "c3"}]},
        {"role": "tool", "tool_call_id": "c3", "content": "3"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]


def test_reasoning_summary_stands_in_where_there_is_no_more() -> None:
    """A reasoning item of another provider may hold its summary alone; an empty one says nothing."""
    summary = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}]}
    empty = {"type": "reasoning", "id": "r", "summary": []}
    assert messages(USER, empty, summary) == [
        USER,
        {"role": "assistant", "content": "", "reasoning_content": "s"},
    ]


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({"max_output_tokens": 9}, {"max_completion_tokens": 9}),
        ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "text"}}}, {"response_format": {"type": "text"}}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", **SCHEMA}}},
            {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
        ),
        (
            {"tools": [FUNCTION]},
            {"tools": [{"type": "function", "function": {k: v for k, v in FUNCTION.items() if k != "type"}}]},
        ),
        (
            {"tools": [{"type": "function", "name": "f", "parameters": None, "defer_loading": False}]},
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
        ),
        ({"tools": []}, {}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tool_choice": {"type": "function", "name": "f"}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": "f"}],
                }
            },
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "required",
                        "tools": [{"type": "function", "function": {"name": "f"}}],
                    },
                }
            },
        ),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True, "top_logprobs": 0}),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, {}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"store": False, "background": False, "previous_response_id": None, "truncation": "disabled"}, {}),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, {"stream": True}),
        (
            {
                "model": "m",
                "temperature": 0,
                "top_p": 1,
                "parallel_tool_calls": False,
                "metadata": {"a": "b"},
            },
            {
                "model": "m",
                "temperature": 0,
                "top_p": 1,
                "parallel_tool_calls": False,
                "metadata": {"a": "b"},
            },
        ),
        (
            {"user": "u", "prompt_cache_key": "k", "top_k": 3},
            {"user": "u", "prompt_cache_key": "k", "top_k": 3},
        ),
    ],
)
def test_parameters_have_their_names_in_chat(fields: dict[str, Any], chat: dict[str, Any]) -> None:
    """Renamed, regrouped, or as they are; an engine's own parameters go through."""
    assert parameters(**fields) == chat


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"store": True}, "store"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [USER, {"id": "msg_1"}]}, "input[1]"),
        ({"messages": [USER]}, "messages"),
        ({"n": 2}, "n"),
        ({"functions": []}, "functions"),
    ],
)
def test_what_no_tier_can_be_asked_is_refused_with_the_remedy(fields: dict[str, Any], param: str) -> None:
    """State and chat's own names: a 400 that names the parameter and says what to do."""
    with pytest.raises(ApiError) as refused:
        as_chat({"input": "hi"} | fields)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert ":" in refused.value.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": ["hi"]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
        ({"instructions": ["x"]}, "instructions"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": "9"}, "max_output_tokens"),
        ({"reasoning": "low"}, "reasoning"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"text": "json"}, "text"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"tools": {}}, "tools"),
        ({"tools": ["f"]}, "tools[0]"),
        ({"tool_choice": 1}, "tool_choice"),
        ({"include": "all"}, "include"),
        ({"top_logprobs": -1}, "top_logprobs"),
        ({"stream_options": {}}, "stream_options"),
    ],
)
def test_malformed_member_is_named_as_the_client_wrote_it(fields: dict[str, Any], param: str) -> None:
    """By the name in the Responses API, not by what it would be called in chat."""
    with pytest.raises(ApiError) as refused:
        as_chat({"input": "hi"} | fields)
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"tools": [FUNCTION, {"type": "web_search"}]}, "tools[]", "tools[1].type"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools[]", "tools[0].type"),
        ({"tools": [FUNCTION | {"defer_loading": True}]}, "tools[]", "tools[0].defer_loading"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type", "tool_choice.type"),
        ({"truncation": "auto"}, "truncation", "truncation"),
        ({"max_tool_calls": 3}, "max_tool_calls", "max_tool_calls"),
        ({"context_management": [{"type": "compaction"}]}, "context_management", "context_management"),
        ({"include": ["file_search_call.results"]}, "include[]", "include[0]"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary", "reasoning.summary"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "text.format.type"),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
            "stream_options.include_obfuscation",
        ),
        ({"input": [{"type": "computer_call_output", "output": {}}]}, "input[]", "input[0].type"),
        ({"input": [{"type": "reasoning", "encrypted_content": "x"}, USER]}, "input[]", "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[]",
            "input[0].content[0]",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}]},
            "input[]",
            "input[0].content[0]",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "hologram"}]}]},
            "input[]",
            "input[0].content[0].type",
        ),
        (
            {
                "input": [
                    {
                        "type": "function_call_output",
                        "call_id": "c",
                        "output": [{"type": "input_image", "image_url": PNG}],
                    }
                ]
            },
            "input[]",
            "input[0].output",
        ),
    ],
)
def test_what_chat_cannot_say_is_an_obstacle(fields: dict[str, Any], kind: str, param: str) -> None:
    """It is noted under a kind that tiers are chosen by, and under the place where it stands."""
    obstacle = as_chat({"input": "hi"} | fields).obstacles[0]
    assert (obstacle.kind, obstacle.param) == (kind, param)
    assert kind in NATIVE_ONLY
