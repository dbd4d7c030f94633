"""The client's levers: what the `x-tierwise-*` request headers ask of the router."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from serving.gateway.errors import ApiError

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
MAX_SESSION_CHARS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Levers:
    """The levers that stand in headers; those of the body are read by the protocol."""

    wanted_arm: str | None = None
    max_cost: float | None = None
    min_quality: float | None = None
    session: str | None = None


def read_levers(headers: Mapping[str, str]) -> Levers:
    """The levers in these headers (lower-case names).

    Raises:
        ApiError: 400 for one that cannot be understood; a lever is never silently ignored.
    """
    for name in headers:
        if name.startswith("x-tierwise-") and name not in _KNOWN:
            raise ApiError(400, f"Unknown header {name}; known are {', '.join(_KNOWN)}.", param=name)
    session = headers.get("x-tierwise-session")
    if session is not None and len(session) > MAX_SESSION_CHARS:
        raise ApiError(
            400, f"x-tierwise-session is longer than {MAX_SESSION_CHARS}.", param="x-tierwise-session"
        )
    return Levers(
        wanted_arm=headers.get("x-tierwise-arm"),
        max_cost=_number(headers, "x-tierwise-max-cost", upper=None),
        min_quality=_number(headers, "x-tierwise-min-quality", upper=1.0),
        session=session,
    )


_KNOWN: Final = ("x-tierwise-arm", "x-tierwise-max-cost", "x-tierwise-min-quality", "x-tierwise-session")


def request_id_of(headers: Mapping[str, str], fresh: str) -> str:
    """The client's `x-request-id` where it is one that can be logged safely, else `fresh`."""
    told = headers.get("x-request-id", "")
    return told if _REQUEST_ID.fullmatch(told) else fresh


def _number(headers: Mapping[str, str], name: str, *, upper: float | None) -> float | None:
    text = headers.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0 or (upper is not None and value > upper) or value == float("inf"):
        allowed = f"from 0 to {upper:g}" if upper is not None else "of at least 0"
        raise ApiError(400, f"{name} must be a number {allowed}; it is {text[:40]!r}.", param=name)
    return value
