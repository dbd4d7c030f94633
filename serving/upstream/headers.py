"""Headers at the border to an upstream: what goes there, and what `retry-after` comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

FORWARDED: Final = frozenset({"x-request-id", "traceparent", "tracestate"})
"""All that an upstream gets to see of a client's headers. Above all no credentials: those are between it and us."""


def request_headers(client_headers: Mapping[str, str], api_key: str | None) -> dict[str, str]:
    """Headers of a request upstream, with our own credentials."""
    headers = {
        "Content-Type": "application/json",
        # Bytes are relayed as they come; compressed ones would have to be held back until they can be read.
        "Accept-Encoding": "identity",
        "User-Agent": "tierwise",
    }
    for name, value in client_headers.items():
        if name.lower() in FORWARDED:
            headers[name] = value
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    return headers


def retry_after_s(headers: Mapping[str, str], unix_now: float) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after` (seconds or a date, RFC 9110 §10.2.3), never negative.

    None where neither stands there, or makes sense.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(0.0, seconds)
    if value is None:
        return None
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - unix_now)
    except ValueError:
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
