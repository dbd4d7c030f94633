"""Demonstrations: reference turns are learned as the template renders them, results between them are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.train.rollouts.test_turns_in_chat import chat
from train.codec import CharacterCodec
from train.demonstrations import demonstrations
from train.domains.catalog import get
from train.parts import Parts
from train.rollouts.tool_calls import read_turn, written
from train.tools.toolset import BoundedToolset
from train.transcript import Message, ToolCall


def parts_of(codec: Any, *names: str) -> Parts:
    nothing = cast("Any", None)
    return Parts(nothing, nothing, codec, {name: get(name) for name in names}, nothing)


def test_a_plain_answer_is_learned_with_its_end() -> None:
    """Every token of the answer weighs the same, none of the prompt is learned."""
    codec = CharacterCodec()
    item = get("terse_sorting").item(0, 0, 0)
    [group] = demonstrations([item], parts_of(codec, "terse_sorting"), has_modes=False)
    [credit] = group.credits
    assert credit.token_ids == codec.answer(item.answer)
    assert set(credit.ce_weights) == {1.0}
    assert not credit.has_advantage


def test_turns_are_what_the_template_renders(tmp_path: Path) -> None:
    """Laid end to end a demonstration with tools is the conversation as served; what the policy did not say weighs
    nothing."""
    codec = chat(tmp_path)
    item = get("tool_combined").item(0, 0, 1)
    assert item.environment is not None
    [group] = demonstrations([item], parts_of(codec, "tool_combined"), has_modes=False)
    [credit] = group.credits
    messages = get("tool_combined").reference(item).messages
    tools = BoundedToolset.of(item.environment).schemas()
    whole = codec.prompt([Message("user", item.prompt), *messages], tools)
    learned = group.prompt + credit.token_ids
    assert whole[: len(learned)] == learned
    said = [token for token, weight in zip(credit.token_ids, credit.ce_weights, strict=True) if weight]
    assert said == [token for m in messages if m.role == "assistant" for token in codec.answer(written(m))]


@pytest.mark.parametrize(
    "message",
    [
        Message("assistant", "42"),
        Message("assistant", "", (ToolCall("sql_query", '{"sql": "select \\"é\\""}'),)),
        Message(
            "assistant", "Let me see.", (ToolCall("a_b", "{}"), ToolCall("c_d", '{"x": [1, 2.5, null]}'))
        ),
    ],
)
def test_written_turns_are_read_back(message: Message) -> None:
    """What a demonstration says is what the reader of turns understands."""
    turn = read_turn(written(message))
    assert (turn.text, turn.calls) == (message.text, message.calls)
