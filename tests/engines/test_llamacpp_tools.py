"""How a required tool call is made to begin: the prefix read off a template, and the request that is changed."""

from __future__ import annotations

from typing import Any

import pytest

from serving.engines.llamacpp_tools import PROBE_NAME, call_prefix, force_call

OPENING = "<|im_start|>assistant\n"
HI = {"role": "user", "content": "hi"}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def chosen(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("call", "prefix"),
    [
        (f'<tool_call>[{{"name": "{PROBE_NAME}", "arguments": {{}}}}]</tool_call>', "<tool_call>"),
        (f'<tool_call>\n{{"name": "{PROBE_NAME}", "arguments": {{}}}}\n</tool_call>', "<tool_call>\n"),
        (f'[TOOL_CALLS][{{"name": "{PROBE_NAME}"}}]', "[TOOL_CALLS]"),
        (f"<function={PROBE_NAME}>{{}}</function>", "<function="),
        (f'{{"name": "{PROBE_NAME}", "parameters": {{}}}}', '{"name": "'),
        ("it says nothing of calls", None),
        (PROBE_NAME, None),
    ],
    ids=["one section", "Hermes", "bracketed marker", "function tag", "bare JSON", "no calls", "name first"],
)
def test_prefix_of_a_template(call: str, prefix: str | None) -> None:
    """It ends where calls begin to differ, before the brackets that the grammar writes itself."""
    assert call_prefix(f"hi{OPENING}", f"hi{OPENING}{call}<|im_end|>\n") == prefix


def test_no_prefix_where_the_opening_differs() -> None:
    """A template that opens a turn with calls in another way gives nothing to continue."""
    assert call_prefix(f"hi{OPENING}", f"hi<|im_start|>tool_calls\n{PROBE_NAME}") is None


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_free_choice_changes_nothing(choice: str | None) -> None:
    """Where no call is required the request stays as it is."""
    assert force_call({"messages": [HI], "tools": [tool("f")], "tool_choice": choice}, "<tool_call>") == {}


def test_required_continues_an_assistant_message() -> None:
    """The conversation ends with what begins every call; tools and choice stay."""
    body = {"messages": [HI], "tools": [tool("f")], "tool_choice": "required"}
    assert force_call(body, "<tool_call>") == {
        "messages": [HI, {"role": "assistant", "content": "<tool_call>"}]
    }
    assert body["messages"] == [HI]


def test_a_named_function_is_the_only_tool_left() -> None:
    """llama.cpp knows no names in `tool_choice`: one tool and "required" say the same."""
    body = {"messages": [HI], "tools": [tool("f"), tool("g")], "tool_choice": chosen("g")}
    changes = force_call(body, "<")
    assert changes["tools"] == [tool("g")]
    assert changes["tool_choice"] == "required"
    assert changes["messages"][-1] == {"role": "assistant", "content": "<"}


@pytest.mark.parametrize(("mode", "is_forced"), [("auto", False), ("required", True)])
def test_allowed_tools(mode: str, is_forced: bool) -> None:
    """`allowed_tools` narrows the tools, and forces a call in mode required only."""
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [chosen("f"), chosen("h")]}}
    body = {"messages": [HI], "tools": [tool("f"), tool("g"), tool("h")], "tool_choice": allowed}
    changes = force_call(body, "<")
    assert changes["tools"] == [tool("f"), tool("h")]
    assert changes["tool_choice"] == mode
    assert ("messages" in changes) is is_forced
