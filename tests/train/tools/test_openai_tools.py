"""The tools offered over OpenAI's API, as docs/train_tools.md shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI

from train.domains import catalog
from train.domains.base import Item
from train.transcript import Message

PAGE = Path(__file__).parents[3] / "docs" / "train_tools.md"


def client(replies: list[dict[str, Any]], asked: list[Any]) -> OpenAI:
    """A client whose server says these assistant messages."""
    left = iter(replies)

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **next(left)}}
        body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return httpx.Response(200, json=body)

    transport = httpx.MockTransport(handle)
    return OpenAI(base_url="http://test/v1", api_key="k", http_client=httpx.Client(transport=transport))


def as_reply(message: Message) -> dict[str, Any]:
    """As a server writes it."""
    calls = [
        {
            "id": f"call{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for place, call in enumerate(message.calls)
    ]
    return {"content": message.text or None, **({"tool_calls": calls} if calls else {})}


def attempted(item: Item, replies: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
    """The documented loop, run."""
    [source] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(source, str(PAGE), "exec"), names)
    asked: list[Any] = []
    with client(replies, asked) as connected:
        return names["attempted"](connected, "m", item), asked


def test_the_documented_loop_offers_calls_and_judges() -> None:
    """A model that does what the reference does is right; it was offered the schemas and read every result."""
    domain = catalog.get("tool_combined")
    item = domain.item(0, 0, 2)
    reference = domain.reference(item)
    verdict, asked = attempted(
        item, [as_reply(each) for each in reference.messages if each.role == "assistant"]
    )
    assert verdict.score == 1.0
    assert {tool["function"]["name"] for tool in asked[0]["tools"]} > {"sql_query", "store_set", "files_read"}
    read = [message["content"] for message in asked[-1]["messages"] if message["role"] == "tool"]
    assert read == [message.text for message in reference.messages if message.role == "tool"]


def test_the_documented_loop_ends_with_the_budget() -> None:
    """A model that calls for ever is stopped after one turn beyond its calls, and is worth nothing."""
    item = catalog.get("tool_none_needed").item(0, 0, 0)
    call = {"id": "c", "type": "function", "function": {"name": "store_list", "arguments": "{}"}}
    assert item.environment is not None
    verdict, asked = attempted(item, [{"content": None, "tool_calls": [call]}] * 50)
    assert len(asked) == item.environment.max_calls + 1
    assert verdict.score == 0.0
    assert verdict.parts["stopped"] == 0.0
