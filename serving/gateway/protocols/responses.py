"""`/v1/responses`, stateless: passed through where the engine has the API itself, else translated to chat and back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from router.request import RequestView
from serving.gateway.body import REMOVED, splice
from serving.gateway.errors import invalid
from serving.gateway.levers import Levers
from serving.gateway.protocols import parameters
from serving.gateway.protocols.assembled import AssemblingReader
from serving.gateway.protocols.base import Forward, Target
from serving.gateway.protocols.chat import ChatAdapter, tap_of
from serving.gateway.protocols.choices import ChoicesReader
from serving.gateway.protocols.responses_answer import TranslatingReader
from serving.gateway.protocols.responses_native import ResponsesReader
from serving.gateway.protocols.responses_object import ResponseObject
from serving.gateway.protocols.responses_request import as_chat
from serving.gateway.protocols.token_tap import TokenTap

_NATIVE_NAMES: Final = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
"""How the Responses API calls what an arm may merge into a chat request."""


def _random_id() -> str:
    return uuid.uuid4().hex


class ResponsesAdapter:
    """The Responses API.

    Args:
        new_id: makes the part of an id that follows its prefix.
        wall_clock: Unix time, seconds.
    """

    endpoint = "responses"

    def __init__(
        self, *, new_id: Callable[[], str] = _random_id, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._new_id = new_id
        self._wall_clock = wall_clock
        self._chat = ChatAdapter()

    def is_streaming(self, fields: Mapping[str, Any]) -> bool:
        """Whether the client asked for a stream."""
        return parameters.is_streaming(fields)

    def view(self, fields: Mapping[str, Any], levers: Levers) -> RequestView:
        """What the router may know: what it would of the same request to chat, and what chat cannot say.

        Its `parameters` have chat's names, and `responses_request.NATIVE_ONLY`'s.
        """
        chat = as_chat(fields)
        view = self._chat.view(chat.fields, levers)
        kinds = {obstacle.kind for obstacle in chat.obstacles}
        return replace(view, endpoint=self.endpoint, parameters=view.parameters | kinds)

    def forward(self, raw: bytes, fields: Mapping[str, Any], target: Target) -> Forward:
        """The request in the engine's own language.

        Raises:
            ApiError: 400 that names what the engine cannot be asked.
        """
        response = ResponseObject(
            fields,
            response_id=f"resp_{self._new_id()}",
            created_at=int(self._wall_clock()),
            service_tier=target.service_tier,
        )
        if self.endpoint in target.engine.endpoints:
            return self._forward_native(raw, fields, target, response)
        return self._forward_chat(fields, target, response)

    def _forward_native(
        self, raw: bytes, fields: Mapping[str, Any], target: Target, response: ResponseObject
    ) -> Forward:
        changes = {_NATIVE_NAMES.get(k, k): v for k, v in parameters.for_target(fields, target).items()}
        # Absent means true at OpenAI; nothing that was stored could be reached through here.
        changes["store"] = False
        if (effort := changes.pop("reasoning_effort", REMOVED)) is not REMOVED:
            changes["reasoning"] = {**(fields.get("reasoning") or {}), "effort": effort}
        reader = ResponsesReader(
            response,
            max_output_tokens=changes.get("max_output_tokens") or fields.get("max_output_tokens"),
            wall_clock=self._wall_clock,
            expose_vendor_fields=target.expose_vendor_fields,
        )
        return Forward(path="/v1/responses", body=splice(raw, fields, changes), reader=reader)

    def _forward_chat(self, fields: Mapping[str, Any], target: Target, response: ResponseObject) -> Forward:
        chat = as_chat(fields)
        for obstacle in chat.obstacles:
            raise invalid(obstacle.message, obstacle.param, "unsupported_parameter")
        tap = tap_of(chat.fields, target)
        reader = TranslatingReader(
            response,
            new_id=self._new_id,
            wall_clock=self._wall_clock,
            num_top_logprobs=fields.get("top_logprobs") or 0,
            expose_vendor_fields=target.expose_vendor_fields,
            tap=tap,
        )
        body = chat.fields | self._chat.changes(chat.fields, target)
        told = {name: value for name, value in body.items() if value is not REMOVED}
        return Forward(
            path="/v1/chat/completions",
            body=orjson.dumps(told),
            reader=reader if tap is None or self.is_streaming(fields) else _assembled(reader, tap, target),
            tap=tap,
        )


def _assembled(reader: TranslatingReader, tap: TokenTap, target: Target) -> AssemblingReader:
    """A whole response that is asked for as a stream: put together as chat, and then told by `reader`."""
    events = ChoicesReader(
        wants_usage=True, expose_vendor_fields=target.expose_vendor_fields, reshape=tap.take
    )
    return AssemblingReader(events, told=reader.whole)
