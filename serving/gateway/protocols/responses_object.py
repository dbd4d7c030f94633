"""The `response` object and the numbering of its events, the same whether an engine's own or translated from chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from serving.gateway import sse
from serving.gateway.errors import ApiError
from serving.ledger.records import Usage

Event = tuple[str, dict[str, Any]]
"""An event's type, and its other members."""

_ECHOED = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
)
"""Members of the request that stand in the response as they came, null where they did not."""


class ResponseObject:
    """Everything that is the same in each `response` object of one answer.

    Args:
        fields: the client's request, which the object echoes.
        response_id: `resp_…`.
        created_at: Unix time, whole seconds.
        service_tier: to be told, or None.
    """

    def __init__(
        self, fields: Mapping[str, Any], *, response_id: str, created_at: int, service_tier: str | None
    ) -> None:
        self._members: dict[str, Any] = {
            "id": response_id,
            "object": "response",
            "created_at": created_at,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": "",
            "output": [],
            "usage": None,
            "metadata": fields.get("metadata") or {},
            "parallel_tool_calls": fields.get("parallel_tool_calls") is not False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None} | (fields.get("reasoning") or {}),
            "store": False,
            "text": {"format": {"type": "text"}} | (fields.get("text") or {}),
            "tool_choice": fields.get("tool_choice") or "auto",
            "tools": fields.get("tools") or [],
            "truncation": fields.get("truncation") or "disabled",
        }
        self._members |= {name: fields.get(name) for name in _ECHOED}
        self.service_tier = service_tier

    def with_members(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """The object with `members` in place of what it would say; their nulls leave it as it is."""
        told = {name: value for name, value in members.items() if value is not None}
        merged = self._members | told
        if self.service_tier is not None:
            merged["service_tier"] = self.service_tier
        return merged

    def keep(self, members: Mapping[str, Any]) -> None:
        """Say these from now on: the id and the like, once the engine has told its own."""
        for name in ("id", "created_at", "model"):
            if members.get(name) is not None:
                self._members[name] = members[name]


class EventWriter:
    """Writes events, each with the next sequence number."""

    def __init__(self) -> None:
        self.next_number = 0

    def write(self, kind: str, members: Mapping[str, Any]) -> bytes:
        """One event."""
        event = {"type": kind, "sequence_number": self.next_number, **members}
        self.next_number += 1
        return sse.event(orjson.dumps(event), kind)

    def write_all(self, events: Sequence[Event]) -> bytes:
        """These events, in their order."""
        return b"".join(self.write(kind, members) for kind, members in events)

    def failure(self, error: ApiError, response: dict[str, Any]) -> bytes:
        """How a stream says that it ends with an error.

        An `error` event, flat as documented and with the nested object on which OpenAI's clients raise, and
        `response.failed` for those that wait for the end of the response.
        """
        told = {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}
        flat = {"code": error.code, "message": error.message, "param": error.param, "error": told}
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        failed = response | {"status": "failed", "error": {"code": code, "message": error.message}}
        return self.write_all([("error", flat), ("response.failed", {"response": failed})])


def usage_object(usage: Usage, reasoning_tokens: int = 0) -> dict[str, Any] | None:
    """`usage` in the words of the Responses API; None where the engine did not tell it."""
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
