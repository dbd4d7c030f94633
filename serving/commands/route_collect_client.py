"""Asks a running gateway for the answers of named arms, over HTTP alone."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

NUM_TRIES: Final = 4
RETRY_AFTER_S: Final = (0.5, 2.0, 8.0)
"""Waits between tries where the gateway does not say how long."""
MAX_RETRY_AFTER_S: Final = 30.0
BUSY: Final = frozenset({429, 502, 503, 504})
ARM_HEADER: Final = "x-tierwise-arm"


class CollectError(Exception):
    """The gateway does not answer, or refuses; what it said is in the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an arm answered, and what it took."""

    text: str
    model: str
    num_input_tokens: int
    num_output_tokens: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How answers are sampled."""

    max_tokens: int
    temperature: float


class GatewayClient:
    """One gateway at `url`, spoken to as any client would.

    Args:
        http: the session, with the key among its headers if one is needed.
        url: as in `http://127.0.0.1:8000`, with or without `/v1`.
    """

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url.rstrip("/").removesuffix("/v1")

    async def tiers(self) -> list[str]:
        """The names of its tiers, each of which is an arm unless the configuration names others.

        Raises:
            CollectError: nobody answers there, or it is no tierwise gateway.
        """
        try:
            async with self._http.get(f"{self._url}/readyz") as response:
                body = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise CollectError(
                f"{self._url}: no gateway answers there ({error or type(error).__name__})"
            ) from None
        if not isinstance(body, dict) or not isinstance(tiers := body.get("tiers"), dict) or not tiers:
            raise CollectError(f"{self._url}: answers, but is no tierwise gateway")
        return list(tiers)

    async def ask(self, prompt: str, *, arm: str, sampling: Sampling) -> Answer:
        """The arm's answer to one user turn; asked again while the gateway is busy.

        Raises:
            CollectError: it refuses, or does not answer after `NUM_TRIES`.
        """
        for wait_s in (*RETRY_AFTER_S, None):
            try:
                return await self._ask_once(prompt, arm=arm, sampling=sampling)
            except _BusyError as busy:
                if wait_s is None:
                    raise CollectError(str(busy)) from None
                await asyncio.sleep(wait_s if busy.retry_after_s is None else busy.retry_after_s)
        raise AssertionError("the last try returns or raises")

    async def _ask_once(self, prompt: str, *, arm: str, sampling: Sampling) -> Answer:
        body = {
            "model": "auto",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        url = f"{self._url}/v1/chat/completions"
        try:
            async with self._http.post(url, json=body, headers={ARM_HEADER: arm}) as response:
                if response.status == 200:
                    return _answer(await response.json(), response, arm)
                told = f"{response.status}: {_message(await response.text())}"
                if response.status in BUSY:
                    raise _BusyError(told, _seconds(response.headers.get("retry-after")))
                raise CollectError(told)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _BusyError(str(error) or type(error).__name__, None) from None


class _BusyError(Exception):
    """Worth another try."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _answer(body: Any, response: aiohttp.ClientResponse, arm: str) -> Answer:
    if (answered := response.headers.get(ARM_HEADER)) != arm:
        raise CollectError(f"asked for the arm {arm!r}, answered by {answered!r}")
    try:
        return Answer(
            text=body["choices"][0]["message"].get("content") or "",
            model=str(body["model"]),
            num_input_tokens=int(body["usage"]["prompt_tokens"]),
            num_output_tokens=int(body["usage"]["completion_tokens"]),
            cost=float(response.headers["x-tierwise-cost"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CollectError(f"the answer lacks {error}") from None


def _message(text: str) -> str:
    """What an error body in OpenAI's shape says, else its beginning."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else min(max(float(text), 0.0), MAX_RETRY_AFTER_S)
    except ValueError:  # a date
        return None
