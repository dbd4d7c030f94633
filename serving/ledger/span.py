"""Moments as people write them: so long ago, or a date and time."""

from __future__ import annotations

import re
from datetime import datetime

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str, *, now: float) -> float:
    """Unix time of `30m`, `1h`, `7d` ago, or of an ISO date and time (local where it names no zone).

    Raises:
        ValueError: it is neither; the message says how to write one.
    """
    if match := _SPAN.fullmatch(text):
        return now - float(match[1]) * _UNIT_S[match[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:80]!r} is no span or time; write 30m, 1h, 7d or 2026-01-31T09:00") from None
