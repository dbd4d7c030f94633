"""How a log line looks: a request or a message of the program, as JSON or as text for a terminal.

Pure: no clock and no stream. A request's line is derived from its ledger records, field by field, so that
nothing of a prompt or a header can slip into it; what looks like a credential is masked in every line all the
same, because a client may put its key where the model's name belongs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from serving.ledger.credentials import mask_credentials
from serving.ledger.records import AttemptRecord, DecisionRecord

Fields = Mapping[str, Any]
Render = Callable[[Fields], str]

_EXCEPTIONS = logging.Formatter()


def level_of(status: int) -> int:
    """The level of a request's line: WARNING where the fault was not the client's."""
    return logging.WARNING if status >= 500 else logging.INFO


def request_fields(decision: DecisionRecord, attempts: Sequence[AttemptRecord], *, at: float) -> Fields:
    """The line of one request; `at` is Unix time. All keys are always there, null where they do not apply.

    `ttft_ms` is a stream's alone. Tokens are those of the attempt that the client saw, else of the last.
    """
    answer = next(
        (attempt for attempt in attempts if attempt.is_committed), attempts[-1] if attempts else None
    )
    ttft_s = answer.first_token_s if answer and decision.is_streaming else None
    return {
        "ts": _timestamp(at),
        "level": logging.getLevelName(level_of(decision.status)).lower(),
        "event": "request",
        "request_id": decision.request_id,
        "key": decision.key,
        "endpoint": decision.endpoint,
        "model": decision.model,
        "arm": decision.arm,
        "tier": decision.tier,
        "reason": decision.reason,
        "status": decision.status,
        "ttft_ms": None if ttft_s is None else round(ttft_s * 1e3, 1),
        "total_ms": round(decision.total_s * 1e3, 1),
        "prompt_tokens": answer.usage.prompt_tokens if answer else None,
        "completion_tokens": answer.usage.completion_tokens if answer else None,
        "cost": decision.cost,
        "attempts": decision.num_attempts,
        "error_code": decision.error_code,
    }


def message_fields(record: logging.LogRecord) -> Fields:
    """The line of a log message; an exception's traceback goes with it."""
    fields: dict[str, Any] = {
        "ts": _timestamp(record.created),
        "level": record.levelname.lower(),
        "event": "message",
        "logger": record.name,
        "message": record.getMessage(),
    }
    if record.exc_info:
        fields["exception"] = _EXCEPTIONS.formatException(record.exc_info)
    return fields


def as_json(fields: Fields) -> str:
    """One JSON object on one line."""
    return orjson.dumps(_masked_fields(fields)).decode() + "\n"


def as_text(fields: Fields) -> str:
    """For a person at a terminal. Control characters are escaped, so that no client can move the cursor."""
    fields = _masked_fields(fields)
    head = f"{fields['ts'][11:23]} {fields['level'].upper():<8}"
    if fields["event"] == "request":
        return head + printable(_request_text(fields)) + "\n"
    body = "\n".join(str(fields[key]) for key in ("message", "exception") if key in fields)
    return head + "\n    ".join(printable(line) for line in body.splitlines()) + "\n"


def _request_text(fields: Fields) -> str:
    chosen = f" → {fields['arm']} ({fields['reason']})" if fields["arm"] else ""
    parts = [f"{fields['status']} {fields['endpoint']} {fields['model']}{chosen}"]
    if fields["error_code"]:
        parts.append(fields["error_code"])
    if fields["ttft_ms"] is not None:
        parts.append(f"first token {fields['ttft_ms']:.0f} ms")
    parts.append(f"total {fields['total_ms']:.0f} ms")
    if fields["completion_tokens"] is not None:
        parts.append(f"{fields['prompt_tokens'] or 0}+{fields['completion_tokens']} tokens")
    if fields["attempts"] > 1:
        parts.append(f"{fields['attempts']} attempts")
    if fields["key"]:
        parts.append(f"key {fields['key']}")
    return ", ".join((*parts, fields["request_id"]))


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _masked_fields(fields: Fields) -> dict[str, Any]:
    """Masked before anything is escaped: behind a `\\n` no word begins, and a mask could eat half an escape.

    Lone surrogates, which stand for bytes that are not UTF-8, are written as escapes.
    """
    return {key: _masked(value) if isinstance(value, str) else value for key, value in fields.items()}


def _masked(text: str) -> str:
    return mask_credentials(text).encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """`text` with control and formatting characters escaped, tabs excepted: it cannot move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text
    )
