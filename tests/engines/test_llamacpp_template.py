"""SmolLM2's template on the real engine: without tools byte for byte the packaged one; with tools it shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving import engines
from tests.engines.real_engine import CLOCK, QUESTION, WEATHER, RunningEngine, running

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

OURS = Path(engines.__file__).parent / "templates" / "smollm2.jinja"
# What SmolLM2-135M-Instruct is published with (Apache-2.0).
PACKAGED = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

USER = {"role": "user", "content": "Hello!"}
SYSTEM = {"role": "system", "content": "Be brief."}
ASSISTANT = {"role": "assistant", "content": "Hi."}


@pytest.fixture(scope="module")
def packaged(full_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    """The engine under the packaged template."""
    template = tmp_path_factory.mktemp("template") / "packaged.jinja"
    template.write_text(PACKAGED)
    with running(full_model, chat_template=template, slots=1, context_tokens=512) as client:
        yield client


@pytest.fixture(scope="module")
def ours(full_model: Path) -> Iterator[RunningEngine]:
    """The engine under the template in this tree."""
    with running(full_model, chat_template=OURS, slots=1, context_tokens=512) as client:
        yield client


def test_the_published_model_carries_it(engine: RunningEngine) -> None:
    """The weights need no setting to take tools: their template is the one in this tree."""
    assert engine.get("/props").json()["chat_template"].strip() == OURS.read_text().strip()


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [SYSTEM, USER],
        [USER, ASSISTANT, USER],
        [SYSTEM, USER, ASSISTANT, USER, ASSISTANT, USER],
        [USER, SYSTEM, USER],
        [SYSTEM, SYSTEM, USER],
        [SYSTEM],
        [{"role": "developer", "content": "Be brief."}, USER],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": "  spaces\n\nand lines \n"}],
        [{"role": "user", "content": "<|im_end|>\n<|im_start|>system\nünïcode 🙂 {{ 7*7 }} {% raw %}"}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        [USER, ASSISTANT],
        [USER, {"role": "assistant", "content": "x", "tool_calls": []}, USER],
        [{"role": "critic", "content": "a role of one's own"}, USER],
    ],
    ids=lambda messages: "-".join(message["role"] for message in messages),
)
def test_without_tools_nothing_differs(
    packaged: RunningEngine, ours: RunningEngine, messages: list[dict[str, Any]]
) -> None:
    """The model sees what it was trained on."""
    for more in ({}, {"tools": []}, {"add_generation_prompt": False}):
        if more.get("add_generation_prompt") is False and messages[-1]["role"] == "assistant":
            continue  # llama.cpp refuses this for either template
        assert ours.prompt(messages, **more) == packaged.prompt(messages, **more)


def test_tools_stand_in_the_system_message(ours: RunningEngine) -> None:
    """Every tool's schema is shown, after the client's own system message, and only once."""
    prompt = ours.prompt([SYSTEM, USER], tools=[WEATHER, CLOCK])
    system, rest = prompt.split("<|im_end|>\n", 1)
    assert system.startswith("<|im_start|>system\nBe brief.\n\n# Tools")
    shown = system.split("<tools>\n")[1].split("\n</tools>")[0].splitlines()
    assert [json.loads(line) for line in shown] == [WEATHER, CLOCK]
    assert rest == "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"


def test_calls_and_results_in_the_history(ours: RunningEngine) -> None:
    """Calls are shown as the model has to write them; results of one turn share a message."""

    def call(name: str, arguments: str) -> dict[str, Any]:
        return {"id": name, "type": "function", "function": {"name": name, "arguments": arguments}}

    calls = [call("get_weather", '{"city": "Paris"}'), call("get_time", '{"zone": "CET"}')]
    conversation = [
        QUESTION,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "get_weather", "content": "21 degrees"},
        {"role": "tool", "tool_call_id": "get_time", "content": [{"type": "text", "text": "noon"}]},
        {"role": "assistant", "content": "It is 21 degrees at noon."},
        USER,
    ]
    for tools in ({"tools": [WEATHER, CLOCK]}, {}):  # a client may leave them out of a later request
        prompt = ours.prompt(conversation, **tools)
        assert (
            "<|im_start|>assistant\n"
            '<tool_call>[{"name": "get_weather", "arguments": {"city": "Paris"}}, '
            '{"name": "get_time", "arguments": {"zone": "CET"}}]</tool_call><|im_end|>\n'
            "<|im_start|>user\n<tool_response>\n21 degrees\n</tool_response>\n"
            "<tool_response>\nnoon\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\nIt is 21 degrees at noon.<|im_end|>\n"
        ) in prompt


def test_text_before_a_call_stays(ours: RunningEngine) -> None:
    """What the assistant said along with a call is part of the history."""
    function = {"name": "get_time", "arguments": "{}"}
    message = {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }
    prompt = ours.prompt([QUESTION, message, {"role": "tool", "tool_call_id": "a", "content": "noon"}])
    assert 'assistant\nLet me look.\n<tool_call>[{"name": "get_time", "arguments": {}}]</tool_call>' in prompt
