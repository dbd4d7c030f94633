"""Tool calls are read in one form, and nothing is mended."""

from __future__ import annotations

import json

import pytest

from train.rollouts.tool_calls import MalformedCallError, Turn, read_turn
from train.transcript import ToolCall


def test_an_answer_is_a_turn_without_calls() -> None:
    """Text is taken as it is, blanks and all."""
    assert read_turn(" 42\n") == Turn(" 42\n")


def test_calls_are_read_with_the_text_before_them() -> None:
    """Several calls in one section, in their order, arguments as JSON."""
    text = (
        'Let me see.\n<tool_call>[{"name": "a_b", "arguments": {"x": "é", "y": [1]}}, '
        '{"name": "c_d", "arguments": {}}]</tool_call>\n'
    )
    turn = read_turn(text)
    assert turn.text == "Let me see."
    assert [call.name for call in turn.calls] == ["a_b", "c_d"]
    assert [json.loads(call.arguments) for call in turn.calls] == [{"x": "é", "y": [1]}, {}]
    assert isinstance(turn.calls[0], ToolCall)


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ('<tool_call>[{"name": "a", "arguments": {}}]', "one section"),
        ('[{"name": "a", "arguments": {}}]</tool_call>', "one section"),
        ("<tool_call>[]</tool_call><tool_call>[]</tool_call>", "one section"),
        ('</tool_call>[{"name": "a", "arguments": {}}]<tool_call>', "nothing may follow"),
        ('<tool_call>[{"name": "a", "arguments": {}}]</tool_call> done', "nothing may follow"),
        ("<tool_call>[]</tool_call>", "at least one call"),
        ('<tool_call>{"name": "a", "arguments": {}}</tool_call>', "an array"),
        ('<tool_call>[{"name": "a"}]</tool_call>', "a name and arguments"),
        ('<tool_call>[{"name": "a", "arguments": {}, "id": 1}]</tool_call>', "nothing else"),
        ('<tool_call>[{"name": "a", "arguments": "{}"}]</tool_call>', "arguments are an object"),
        ('<tool_call>[{"name": 1, "arguments": {}}]</tool_call>', "a name is a string"),
        ("<tool_call>[{'name': 'a', 'arguments': {}}]</tool_call>", "not JSON"),
        ('<tool_call>[{"name": "a", "name": "b", "arguments": {}}]</tool_call>', "named twice"),
        ("<tool_call>" + "[" * 1_000 + "</tool_call>", "nested"),
    ],
)
def test_anything_else_is_evidence(text: str, evidence: str) -> None:
    """The message says what is wrong, and shows the form."""
    with pytest.raises(MalformedCallError, match=evidence) as caught:
        read_turn(text)
    assert '<tool_call>[{"name": …, "arguments": {…}}]</tool_call>' in str(caught.value)
