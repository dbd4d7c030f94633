"""A teacher behind HTTP: an engine that says which tokens it holds likeliest, llama.cpp's or vLLM's.

vLLM says so at every place of a prompt (`prompt_logprobs`), which is one request a text. llama.cpp says so of the
tokens that it writes: there each place of an answer is a request for one token, whose prompt the server has cached but
for the last. Both say log-probabilities at temperature 1 over the whole vocabulary; what is not told is one bucket
(`divergence.TopScores`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
import torch
from torch import Tensor

from distill.divergence import TopScores
from distill.teacher import PROBE, require_same_cuts
from serving.engines.base import Endpoint, EngineError
from train.model.policy import Line
from train.rollouts.engine import EngineSampler
from train.rollouts.rollout import MissingLogprobsError
from train.rollouts.split_characters import ASCII_GRAMMAR

MAX_IN_FLIGHT: Final = 16
TIMEOUT_S: Final = 300.0

_Told = list[tuple[int, float]]
"""Token ids and log-probabilities of one place, the likeliest first."""


class EngineTeacher:
    """A `teacher.Teacher` over one server.

    Args:
        endpoint: where it listens.
        model_id: what stands in a request's `model`.
        num_told: tokens a place.
    """

    def __init__(self, endpoint: Endpoint, model_id: str, num_told: int) -> None:
        self.sampler = EngineSampler(endpoint, model_id)
        self._endpoint = endpoint
        self._model_id = model_id
        self._num_told = num_told

    def require_tokens(self, of_probe: Sequence[int]) -> None:
        """See that the server cuts a text as the student does.

        Args:
            of_probe: the student's tokens of `teacher.PROBE`.

        Raises:
            TokenizerMismatchError: it does not.
            EngineError: it cannot be asked.
        """
        asked = {"content": PROBE, "add_special": False}  # llama.cpp
        asked |= {"model": self._model_id, "prompt": PROBE, "add_special_tokens": False}  # vLLM
        told = asyncio.run(self._all("/tokenize", [asked]))[0]
        require_same_cuts(list(of_probe), told["tokens"])

    def read(self, line: Line, depths: Sequence[int]) -> tuple[TopScores, list[Tensor]]:
        """As `teacher.Teacher`.

        Raises:
            EngineError: the engine cannot be reached, or refuses.
            MissingLogprobsError: it keeps log-probabilities back.
        """
        texts = [(group.prompt, credit.token_ids) for group in line.groups for credit in group.credits]
        told = [place for of_text in asyncio.run(self._read(texts)) for place in of_text]
        ids = torch.zeros(len(line.predictors), self._num_told, dtype=torch.long)
        logprobs = torch.zeros(len(line.predictors), self._num_told)
        for row, place in zip(line.rows.tolist(), told, strict=True):
            ids[row] = torch.tensor([token for token, _ in place])
            logprobs[row] = torch.tensor([logprob for _, logprob in place])
        return TopScores(ids, logprobs), []

    async def _read(self, texts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> list[list[_Told]]:
        whole = [self._request(prompt + answer, prompt_logprobs=self._num_told) for prompt, answer in texts]
        first = (await self._choices(whole[:1]))[0]
        if first.get("prompt_logprobs"):
            choices = [first, *await self._choices(whole[1:])]
            return [
                [self._likeliest(at) for at in choice["prompt_logprobs"][len(prompt) :]]
                for choice, (prompt, _) in zip(choices, texts, strict=True)
            ]
        places = [
            self._request(prompt + answer[:end], grammar=ASCII_GRAMMAR)  # else some are told of none
            for prompt, answer in texts
            for end in range(len(answer))
        ]
        written = iter(map(self._first_written, await self._choices(places)))
        return [[next(written) for _ in answer] for _, answer in texts]

    def _request(self, token_ids: Sequence[int], **members: Any) -> dict[str, Any]:
        asked = {"max_tokens": 1, "temperature": 1.0, "logprobs": self._num_told, "cache_prompt": True}
        return {"model": self._model_id, "prompt": list(token_ids), **asked, **members}

    async def _choices(self, bodies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [answer["choices"][0] for answer in await self._all("/v1/completions", bodies)]

    async def _all(self, path: str, bodies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        key = self._endpoint.api_key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=MAX_IN_FLIGHT)
        url = f"{self._endpoint.url}{path}"
        try:
            async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, limits=limits) as client:
                answers = await asyncio.gather(*(client.post(url, json=body) for body in bodies))
            for answer in answers:
                answer.raise_for_status()
        except httpx.HTTPError as error:
            raise EngineError(f"{url} does not answer ({error!r}); look at the engine's log") from error
        return [answer.json() for answer in answers]

    def _likeliest(self, place: Mapping[str, Mapping[str, Any]]) -> _Told:
        """vLLM's: by token id, and the prompt's own token beside the likeliest."""
        return self._told([(int(token), float(each["logprob"])) for token, each in place.items()])

    def _first_written(self, choice: Mapping[str, Any]) -> _Told:
        """llama.cpp's."""
        try:
            told = choice["logprobs"]["content"][0]["top_logprobs"]
            return self._told([(int(each["id"]), float(each["logprob"])) for each in told])
        except (KeyError, IndexError, TypeError) as error:
            raise MissingLogprobsError(
                f"{self._endpoint.url} tells no likeliest tokens ({error!r}); take llama.cpp's server, or vLLM's"
            ) from None

    def _told(self, told: _Told) -> _Told:
        if len(told) < self._num_told:
            raise MissingLogprobsError(
                f"{self._endpoint.url} tells {len(told)} tokens a place, not {self._num_told}; lower teacher.num_told, "
                "or start vLLM with --max-logprobs"
            )
        return sorted(told, key=lambda each: -each[1])[: self._num_told]
