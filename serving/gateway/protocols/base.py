"""What a protocol adapter is: body → `RequestView`, body → upstream request, and the reader of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from router.arms import Arm
from router.request import RequestView
from serving.engines.base import EngineCapabilities
from serving.gateway.errors import ApiError
from serving.gateway.levers import Levers
from serving.gateway.protocols.token_tap import TokenTap
from serving.ledger.records import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes: the arm that was chosen and what its engine is like."""

    arm: Arm
    engine: EngineCapabilities
    service_tier: str | None
    """What to tell the client about the tier that answers; None where it did not ask for a `service_tier`."""
    expose_vendor_fields: bool = False
    wants_first_tokens: bool = False
    """Ask the engine how sure it is of each token, and for a stream in any case: the answer may be held back."""


class AnswerReader(Protocol):
    """Turns one upstream answer into the client's, and learns usage on the way. O(1) state for a stream."""

    usage: Usage
    num_tokens: int
    """Stream events so far that carried something of the answer."""
    is_complete: bool
    """Whether the upstream has said that its answer ended as it should."""

    def whole(self, body: bytes) -> bytes:
        """The client's body, for an answer that is not a stream.

        Raises:
            ApiError: the upstream's body is none, or holds an error.
        """
        ...

    def feed(self, chunk: bytes) -> bytes:
        """The client's bytes for these upstream bytes: whole events, possibly none.

        Raises:
            ApiError: the upstream sent an error, or something that is not the protocol.
        """
        ...

    def finish(self) -> bytes:
        """The client's last bytes, after the upstream closed the stream.

        Raises:
            ApiError: the stream broke off.
        """
        ...

    def error_event(self, error: ApiError) -> bytes:
        """How this protocol says, inside a stream, that it ends with an error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """The upstream request, and who reads its answer."""

    path: str
    body: bytes
    reader: AnswerReader
    tap: TokenTap | None = None
    """What the engine says of its first tokens, as it passes the reader; None where it was not asked."""


class ProtocolAdapter(Protocol):
    """One of OpenAI's protocols."""

    endpoint: str

    def view(self, fields: Mapping[str, Any], levers: Levers) -> RequestView:
        """What the router may know.

        Raises:
            ApiError: a parameter that the gateway reads is not what it must be.
        """
        ...

    def is_streaming(self, fields: Mapping[str, Any]) -> bool:
        """Whether the client asked for a stream."""
        ...

    def forward(self, raw: bytes, fields: Mapping[str, Any], target: Target) -> Forward:
        """The upstream request: the client's bytes with what must differ replaced."""
        ...


def interrupted(tier: str = "upstream") -> ApiError:
    """The upstream closed a stream before its end."""
    return ApiError(
        502, "The answer broke off: the engine closed the stream before its end.", code="stream_interrupted"
    )
