"""Samples from a server that speaks the OpenAI completions API: our llama.cpp, or vLLM.

Prompts go as token ids and answers come back as token ids, each with the log-probability at which it was drawn. Top-k,
top-p and min-p are off. llama.cpp says what a token's probability was after temperature (`post_sampling_probs`); of an
engine that only knows the one before, temperatures other than 0 and 1 are refused rather than trained on.

Stop tokens that the engine does not know are found here: an answer is cut behind the first. What llama.cpp keeps back
of characters that took several tokens is asked for again (`split_characters`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from serving.engines.base import Endpoint, EngineError
from train.rollouts.rollout import MissingLogprobsError, SampleRequest, Sampling, Span, StopReason
from train.rollouts.split_characters import logprob_in, places_kept_back, question_about_place

MAX_IN_FLIGHT = 64
_SEEDS = 2**32 - 1  # llama.cpp draws a seed of its own for 2³²−1


class EngineSampler:
    """A `rollouts.Sampler` over one engine.

    Args:
        endpoint: where it listens.
        model_id: what stands in a request's `model`.
        policy_version: of the weights that it has loaded.
        max_seconds: for one answer, waiting included; one that takes longer comes back empty, as `DEADLINE`.
        max_in_flight: answers asked for at once.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model_id: str,
        *,
        policy_version: int = 0,
        max_seconds: float = 300.0,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._endpoint = endpoint
        self._model_id = model_id
        self._policy_version = policy_version
        self._max_seconds = max_seconds
        self._max_in_flight = max_in_flight

    @property
    def policy_version(self) -> int:
        """Of the weights that sample now."""
        return self._policy_version

    def update(self, policy_version: int) -> None:
        """Say that the engine has other weights now; whoever pushed them calls this."""
        self._policy_version = policy_version

    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        """As `rollouts.Sampler`.

        Raises:
            EngineError: the engine cannot be reached, or refuses.
            MissingLogprobsError: it keeps token ids or log-probabilities back, or has them before temperature only.
        """
        return asyncio.run(self._sample(requests, sampling))

    async def _sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        headers = {"authorization": f"Bearer {self._endpoint.api_key}"} if self._endpoint.api_key else {}
        permits = _Permits(asyncio.Semaphore(self._max_in_flight), asyncio.Lock())
        connector = aiohttp.TCPConnector(force_close=not self._endpoint.keeps_connections, limit=0)
        first: Exception | None = None
        tasks: list[list[asyncio.Task[tuple[Span, StopReason]]]] = []
        try:
            async with (
                aiohttp.ClientSession(headers=headers, connector=connector) as session,
                asyncio.TaskGroup() as group,
            ):
                for request in requests:
                    answers = (
                        self._answer(session, permits, request, seed, sampling) for seed in request.seeds
                    )
                    tasks.append([group.create_task(answer) for answer in answers])
        except* (EngineError, MissingLogprobsError) as failed:
            first = failed.exceptions[0]
        if first is not None:
            raise first
        return [[task.result() for task in row] for row in tasks]

    async def _answer(
        self,
        session: aiohttp.ClientSession,
        permits: _Permits,
        request: SampleRequest,
        seed: int,
        sampling: Sampling,
    ) -> tuple[Span, StopReason]:
        asked = parameters(sampling, seed) | {"max_tokens": request.limit(sampling)}
        body = {"model": self._model_id, "prompt": list(request.token_ids), **asked}
        try:
            async with asyncio.timeout(self._max_seconds), permits.answers:
                answer = await self._ask(session, body)
                told = read_tokens(answer, sampling.temperature)
                tokens = await self._complete(session, permits.distributions, body, told)
        except TimeoutError:
            return Span((), (), self._policy_version), StopReason.DEADLINE
        finish = answer["choices"][0].get("finish_reason")
        return _cut(tokens, sampling, finish, self._policy_version)

    async def _complete(
        self,
        session: aiohttp.ClientSession,
        one_at_a_time: asyncio.Lock,
        body: Mapping[str, Any],
        told: Sequence[tuple[int, float | None]],
    ) -> list[tuple[int, float]]:
        """Ask for the log-probabilities that are None."""
        sampled = [token for token, _ in told]
        complete = []
        for place, (token, logprob) in enumerate(told):
            if logprob is None:
                async with one_at_a_time:
                    answer = await self._ask(session, question_about_place(body, sampled, place))
                logprob = logprob_in(answer["choices"][0], token, body["temperature"])
            complete.append((token, logprob))
        return complete

    async def _ask(self, session: aiohttp.ClientSession, body: Mapping[str, Any]) -> dict[str, Any]:
        url = f"{self._endpoint.url}/v1/completions"
        try:
            async with session.post(url, json=body) as response:
                if response.status != 200:
                    said = (await response.text())[:300]
                    raise EngineError(f"{url} answered {response.status}: {said}; look at the engine's log")
                answer: dict[str, Any] = await response.json()
                return answer
        except aiohttp.ClientError as error:
            raise EngineError(f"{url} cannot be reached ({error}); is the engine up?") from error


@dataclass(frozen=True, slots=True)
class _Permits:
    answers: asyncio.Semaphore
    distributions: asyncio.Lock
    """Megabytes each, which one event loop parses."""


def parameters(sampling: Sampling, seed: int) -> dict[str, Any]:
    """A request's members besides model and prompt."""
    return {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": seed % _SEEDS,
        "logprobs": 1,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "return_token_ids": True,  # vLLM
        "samplers": ["temperature"],  # llama.cpp, and what follows
        "post_sampling_probs": sampling.temperature not in {0, 1},
        "return_tokens": True,
        "verbose": True,
    }


def read_tokens(answer: Mapping[str, Any], temperature: float) -> list[tuple[int, float | None]]:
    """Token ids with their log-probabilities, as llama.cpp or vLLM gives them; None where llama.cpp keeps one back.

    Raises:
        MissingLogprobsError: either is missing, or the temperature is not in them.
    """
    choice = answer["choices"][0]
    said = choice.get("logprobs")
    try:
        if "__verbose" in answer:
            sampled = [int(token) for token in answer["__verbose"]["tokens"]]
            return _of_llamacpp(sampled, said["content"] if said else [], temperature)
        pairs = zip(choice["token_ids"], said["token_logprobs"], strict=True)
        found: list[tuple[int, float | None]] = [(int(token), float(logprob)) for token, logprob in pairs]
    except (KeyError, TypeError, ValueError) as error:
        raise MissingLogprobsError(
            f"the engine's answer lacks token ids or log-probabilities ({error!r}); they are never guessed: take "
            "llama.cpp's server or vLLM's, with log-probabilities allowed"
        ) from None
    if temperature not in {0, 1}:
        raise MissingLogprobsError(
            f"the engine gives log-probabilities before temperature, and {temperature} was asked for; sample at 1"
        )
    return found


def _of_llamacpp(
    sampled: Sequence[int], content: Sequence[Mapping[str, Any]], temperature: float
) -> list[tuple[int, float | None]]:
    is_plain = temperature in {0, 1}
    said = iter([float(each["logprob"]) if is_plain else math.log(each["prob"]) for each in content])
    kept_back = set(places_kept_back(sampled, [int(each["id"]) for each in content]))
    return [(token, None if place in kept_back else next(said)) for place, token in enumerate(sampled)]


def _cut(
    tokens: Sequence[tuple[int, float]], sampling: Sampling, finish: str | None, policy_version: int
) -> tuple[Span, StopReason]:
    ends = [index for index, (token, _) in enumerate(tokens) if token in sampling.stop_token_ids]
    kept = tokens[: ends[0] + 1] if ends else tokens
    span = Span(tuple(token for token, _ in kept), tuple(logprob for _, logprob in kept), policy_version)
    return span, StopReason.END if ends or finish == "stop" else StopReason.LENGTH
