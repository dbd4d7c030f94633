"""A small JSON body, for the URLs that FastAPI answers: bounded in size and in time."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import Request

from serving.gateway.body import parse_object
from serving.gateway.errors import ApiError
from serving.gateway.exchange import BODY_TIMEOUT_S

MAX_BYTES: Final = 64 * 2**10


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object that was sent.

    Raises:
        ApiError: 400 for anything else, 413 for more than `MAX_BYTES`, 408 where it does not come.
    """
    body = b""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ApiError(
                        413, f"The body is larger than {MAX_BYTES} bytes.", code="request_too_large"
                    )
    except TimeoutError:
        raise ApiError(408, "The request body did not arrive in time.", code="request_timeout") from None
    return parse_object(body)
