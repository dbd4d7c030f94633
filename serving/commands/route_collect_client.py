"""Asks a running gateway for the answers of named arms, over HTTP alone."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from router.first_tokens import FirstTokens, of_content

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
    first_tokens: FirstTokens | None
    """None where the engine does not say how sure it is."""


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
        self._mute: set[str] = set()
        """Arms whose engine gives no log-probabilities."""

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
            except _NoLogprobsError:
                self._mute.add(arm)
                return await self.ask(prompt, arm=arm, sampling=sampling)
            except _BusyError as busy:
                if wait_s is None:
                    raise CollectError(str(busy)) from None
                await asyncio.sleep(wait_s if busy.retry_after_s is None else busy.retry_after_s)
        raise AssertionError("the last try returns or raises")

    async def _ask_once(self, prompt: str, *, arm: str, sampling: Sampling) -> Answer:
        body: dict[str, Any] = {
            "model": "auto",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if arm not in self._mute:
            body |= {"logprobs": True, "top_logprobs": 2}
        url = f"{self._url}/v1/chat/completions"
        try:
            async with self._http.post(url, json=body, headers={ARM_HEADER: arm}) as response:
                if response.status == 200:
                    return _answer(await response.json(), response, arm)
                error = _error(await response.text())
                told = f"{response.status}: {error.get('message')}"
                if response.status == 400 and error.get("param") == "logprobs" and arm not in self._mute:
                    raise _NoLogprobsError
                if response.status in BUSY:
                    raise _BusyError(told, _seconds(response.headers.get("retry-after")))
                raise CollectError(told)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _BusyError(str(error) or type(error).__name__, None) from None


class _NoLogprobsError(Exception):
    """The arm answers, if it is not asked how sure it is."""


class _BusyError(Exception):
    """Worth another try."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _answer(body: Any, response: aiohttp.ClientResponse, arm: str) -> Answer:
    if (answered := response.headers.get(ARM_HEADER)) != arm:
        raise CollectError(f"asked for the arm {arm!r}, answered by {answered!r}")
    try:
        choice = body["choices"][0]
        first_tokens = of_content((choice.get("logprobs") or {}).get("content") or ())
        return Answer(
            text=choice["message"].get("content") or "",
            model=str(body["model"]),
            num_input_tokens=int(body["usage"]["prompt_tokens"]),
            num_output_tokens=int(body["usage"]["completion_tokens"]),
            cost=float(response.headers["x-tierwise-cost"]),
            first_tokens=first_tokens if len(first_tokens) else None,
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CollectError(f"the answer lacks {error}") from None


def _error(text: str) -> dict[str, Any]:
    """The error of a body in OpenAI's shape, else the body's beginning as its message."""
    try:
        error = json.loads(text)["error"]
        return {"message": str(error["message"]), "param": error.get("param")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"message": text[:200]}


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else min(max(float(text), 0.0), MAX_RETRY_AFTER_S)
    except ValueError:  # a date
        return None
