"""Errors as OpenAI's clients expect them: a status, and `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

OVERLOADED_STATUSES: Final = frozenset({429, 503, 529})
MISCONFIGURED_STATUSES: Final = frozenset({401, 402, 403, 404, 405, 407})
"""4xx answers that speak of how the gateway reached the engine, and not of the client's request."""
MAX_MESSAGE_CHARS: Final = 4000
"""Engines repeat the request in their messages, and a request may be long."""


class ApiError(Exception):
    """An answer that is an error. Raised anywhere below the service, which turns it into HTTP once."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str | None = None,
        retry_after_s: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.kind = kind or ("invalid_request_error" if status < 500 else "server_error")
        self.retry_after_s = retry_after_s
        self.should_retry = should_retry

    @property
    def body(self) -> bytes:
        """The JSON body, which is also the data of an error event in a stream."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return orjson.dumps({"error": error})

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """`retry-after` (whole seconds, at least 1), `retry-after-ms` and `x-should-retry`, where known."""
        headers = [(b"www-authenticate", b"Bearer")] if self.status == 401 else []
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(self.retry_after_s))))
            headers.append((b"retry-after-ms", b"%d" % max(1, round(self.retry_after_s * 1000))))
        if self.should_retry is not None:
            headers.append((b"x-should-retry", b"true" if self.should_retry else b"false"))
        return headers


def invalid(message: str, param: str | None, code: str | None = None) -> ApiError:
    """400: the request is at fault, and `param` is where."""
    return ApiError(400, message, param=param, code=code)


def unauthorized(message: str) -> ApiError:
    """401: no API key, or one that is not known."""
    return ApiError(401, message, code="invalid_api_key")


def internal() -> ApiError:
    """500: a mistake of ours."""
    message = "The gateway failed. The request id leads to its log."
    return ApiError(500, message, code="internal_error", should_retry=False)


def is_failure(status: int) -> bool:
    """Whether an engine's status says that the engine is at fault, and not the request or the load."""
    return (status >= 500 or status in MISCONFIGURED_STATUSES) and status not in OVERLOADED_STATUSES


def overloaded_upstream(status: int, tier: str, retry_after_s: float | None = None) -> ApiError:
    """An engine has no room. When to come again is told only where the engine told it."""
    return ApiError(
        status,
        f"The {tier} tier is overloaded.",
        kind="overloaded_error",
        code="overloaded",
        retry_after_s=retry_after_s,
    )


def rejected_by_upstream(status: int, body: bytes, tier: str) -> ApiError:
    """A 4xx of an engine, in OpenAI's shape whatever shape the engine gave it."""
    return rejected(status, _told(body), f"The {tier} tier refused the request with status {status}.")


def rejected(status: int, told: Mapping[str, Any], otherwise: str) -> ApiError:
    """A 4xx by the members of an engine's error; `otherwise` where it says nothing.

    The class of the error is kept, save for 422, which OpenAI's clients know as 400.
    """
    message = str(told.get("message") or otherwise)[:MAX_MESSAGE_CHARS]
    kind, code, param = told.get("type"), told.get("code"), told.get("param")
    is_overflow = (
        kind == "exceed_context_size_error" or "context length" in message or "context size" in message
    )
    return ApiError(
        400 if status == 422 else status,
        message,
        kind=kind if isinstance(kind, str) and not is_overflow else "invalid_request_error",
        code="context_length_exceeded" if is_overflow else (code if isinstance(code, str) else None),
        param="messages" if is_overflow and param is None else (param if isinstance(param, str) else None),
    )


def failed_upstream(status: int, tier: str) -> ApiError:
    """A 5xx of an engine, whose text may hold internals: the engine's own log has it. 504 keeps its meaning."""
    shown = status if status in {503, 504, 529} else 502
    return ApiError(
        shown, f"The {tier} tier failed with status {status}.", code="upstream_error", should_retry=False
    )


def _told(body: bytes) -> Mapping[str, Any]:
    """The members of an error body: OpenAI's envelope, vLLM's flat form, FastAPI's `detail`, or nothing."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(parsed, dict):
        return {}
    error = parsed.get("error", parsed)
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, dict):
        return {}
    return error if "message" in error else {"message": error.get("detail")}
