"""`/v1/embeddings`, where a tier offers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from router.request import RequestView
from serving.gateway.body import splice
from serving.gateway.errors import ApiError, invalid
from serving.gateway.levers import Levers
from serving.gateway.protocols import parameters
from serving.gateway.protocols.base import Forward, Target, interrupted
from serving.gateway.protocols.choices import usage_of
from serving.ledger.records import Usage


class EmbeddingsAdapter:
    """Embeddings: one request, one answer, never a stream."""

    endpoint = "embeddings"

    def is_streaming(self, fields: Mapping[str, Any]) -> bool:
        """Never."""
        return False

    def view(self, fields: Mapping[str, Any], levers: Levers) -> RequestView:
        """What the router may know: only which tiers can embed matters."""
        texts = fields.get("input")
        if not texts or not isinstance(texts, str | list):
            raise invalid("`input` must be a string or a list.", "input", "missing_required_parameter")
        parts = [texts] if isinstance(texts, str) else texts
        num_chars = sum(len(part) if isinstance(part, str) else 4 for part in parts)
        return RequestView(
            endpoint=self.endpoint,
            model=parameters.model_of(fields),
            turns=("",),
            num_chars=num_chars,
            max_output_tokens=0,
            service_tier=parameters.service_tier(fields),
            wanted_arm=levers.wanted_arm,
            max_cost=levers.max_cost,
            session=levers.session,
            parameters=parameters.set_parameters(fields),
        )

    def forward(self, raw: bytes, fields: Mapping[str, Any], target: Target) -> Forward:
        """The client's body under the engine's name of the model."""
        body = splice(raw, fields, parameters.for_target(fields, target))
        return Forward(path="/v1/embeddings", body=body, reader=EmbeddingsReader())


class EmbeddingsReader:
    """Takes the usage out of the one body there is."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.num_tokens = 0
        self.is_complete = False

    def whole(self, body: bytes) -> bytes:
        """The engine's bytes."""
        try:
            parsed = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise ApiError(502, "The engine's answer is not JSON.", code="upstream_protocol_error") from None
        if isinstance(parsed, dict) and isinstance(parsed.get("usage"), dict):
            self.usage = usage_of(parsed["usage"])
        self.is_complete = True
        return body

    def feed(self, chunk: bytes) -> bytes:
        """Embeddings do not stream."""
        raise interrupted()

    def finish(self) -> bytes:
        """Embeddings do not stream."""
        raise interrupted()

    def error_event(self, error: ApiError) -> bytes:
        """Embeddings do not stream."""
        return error.body
