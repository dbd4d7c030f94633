"""Tools on llama.cpp: what the model's template does with them, and how a required call is made to begin at once.

llama.cpp derives a parser and a grammar from the template. For `tool_choice: "required"` the grammar asks for a call,
but lets any text come before it (llama.cpp issue 27217), so that a small model chats until its tokens are spent. The
way out is an assistant message at the end of the conversation that holds the text which begins every call: the server
continues such a message, the grammar is fed with it, and nothing but a call can follow. It is not part of the answer.

`tool_choice` naming a function, or `allowed_tools`, is taken for "auto" (with a line in the engine's log): `force_call`
says the same with fewer `tools`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from serving.engines.base import Endpoint

PROBE_TIMEOUT_S: Final = 60.0
"""The engine may be at work for others by then."""
PROBE_NAME: Final = "tierwise_probe"
_USER: Final = {"role": "user", "content": "hi"}
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": PROBE_NAME,
            "description": "a probe",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        },
    }
]
_CALL: Final = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": PROBE_NAME, "arguments": '{"x": "1"}'}}
    ],
}
_RESULT: Final = {"role": "tool", "tool_call_id": "call_1", "content": "1"}


@dataclass(frozen=True, slots=True)
class ToolSupport:
    """What the template does with tools."""

    are_rendered: bool
    """Whether the model gets to see them at all."""
    forced_call_prefix: str | None
    """What begins every call; None where the template shows no such text, so that no call can be forced."""


async def probe_tools(session: aiohttp.ClientSession, endpoint: Endpoint) -> ToolSupport:
    """Render conversations with tools, and have the engine accept one token of a forced call.

    Raises:
        aiohttp.ClientError, TimeoutError: the server does not answer.
    """
    client = _Client(session, endpoint)
    opening = await client.render([_USER])
    with_calls = await client.render([_USER, _CALL, _RESULT])
    if opening is None or with_calls is None or PROBE_NAME not in opening:
        return ToolSupport(
            are_rendered=opening is not None and PROBE_NAME in opening, forced_call_prefix=None
        )
    prefix = call_prefix(opening, with_calls)
    if prefix is None or not await client.accepts(prefix):
        return ToolSupport(are_rendered=True, forced_call_prefix=None)
    return ToolSupport(are_rendered=True, forced_call_prefix=prefix)


def call_prefix(opening: str, with_calls: str) -> str | None:
    """The text with which an assistant's turn goes on when it calls a function, up to where calls begin to differ.

    Args:
        opening: a rendered conversation up to and with the opening of the assistant's turn.
        with_calls: the same, and then the assistant calls `PROBE_NAME`.
    """
    if not with_calls.startswith(opening):
        return None
    before_name, found, _ = with_calls[len(opening) :].partition(PROBE_NAME)
    if not found:
        return None
    # Brackets and quotes are left to the grammar: the model continues better after a token that it would have written.
    bare = before_name.partition("{")[0]
    bare = bare.rstrip().removesuffix("[") if bare.rstrip().endswith("[") else bare
    return bare or before_name or None


def force_call(body: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The members of a chat request that must change for its `tool_choice` to hold on llama.cpp: name → new value.

    Empty where nothing must: no `tool_choice`, "auto" or "none". `allowed_tools` in mode "auto" only narrows the tools.
    """
    names, is_required = _choice(body.get("tool_choice"))
    changes: dict[str, Any] = {}
    if names is not None:
        changes["tools"] = [tool for tool in body.get("tools") or () if _name(tool) in names]
        changes["tool_choice"] = "required" if is_required else "auto"
    if is_required:
        changes["messages"] = [*body["messages"], {"role": "assistant", "content": prefix}]
    return changes


def _choice(choice: object) -> tuple[frozenset[str] | None, bool]:
    """The only functions that may be called (None: all), and whether one must be."""
    if choice == "required":
        return None, True
    match choice:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return frozenset({name}), True
        case {"type": "allowed_tools", "allowed_tools": {"tools": list(tools), "mode": mode}}:
            return frozenset(filter(None, map(_name, tools))), mode == "required"
    return None, False


def _name(tool: object) -> str | None:
    match tool:
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
    return None


class _Client:
    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> None:
        self._session = session
        self._url = endpoint.url
        self._headers = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}

    async def render(self, messages: list[dict[str, Any]]) -> str | None:
        """The prompt; None where the template cannot render it."""
        status, answer = await self._post("/apply-template", {"messages": messages, "tools": _TOOLS})
        return str(answer["prompt"]) if status == 200 else None

    async def accepts(self, prefix: str) -> bool:
        """Whether the engine's grammar takes `prefix` for the beginning of a call."""
        body: dict[str, Any] = {
            "messages": [_USER],
            "tools": _TOOLS,
            "tool_choice": "required",
            "max_tokens": 1,
        }
        status, _ = await self._post("/v1/chat/completions", {**body, **force_call(body, prefix)})
        return status == 200

    async def _post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        async with self._session.post(
            f"{self._url}{path}", json=body, headers=self._headers, timeout=timeout
        ) as response:
            answer: dict[str, Any] = await response.json()
            return response.status, answer
