"""Sampling from an engine: honest log-probabilities or none. On a real one: `checkpoints/test_llamacpp_agrees`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import torch
from aiohttp import web
from aiohttp.test_utils import TestServer

from serving.engines.base import Endpoint, EngineError
from train.rollouts.engine import EngineSampler, parameters, read_tokens
from train.rollouts.rollout import MissingLogprobsError, SampleRequest, Sampling, Span, StopReason
from train.rollouts.split_characters import logprob_in, places_kept_back


def _llamacpp(content: list[dict[str, Any]], tokens: list[int] | None = None) -> dict[str, Any]:
    sampled = [each["id"] for each in content] if tokens is None else tokens
    return {"choices": [{"logprobs": {"content": content}}], "__verbose": {"tokens": sampled}}


def _vllm(token_ids: list[int], logprobs: list[float | None]) -> dict[str, Any]:
    return {"choices": [{"token_ids": token_ids, "logprobs": {"token_logprobs": logprobs}}]}


CONTENT = [{"id": 5, "logprob": -0.5}, {"id": 2, "logprob": -1.5}, {"id": 7, "logprob": -2}]
LLAMACPP = _llamacpp(CONTENT)
VLLM = _vllm([5, 2, 7], [-0.5, -1.5, -2.0])


@pytest.mark.parametrize("answer", [LLAMACPP, VLLM])
def test_both_spellings_are_read(answer: dict[str, Any]) -> None:
    """llama.cpp's and vLLM's answers give the same ids and log-probabilities."""
    assert read_tokens(answer, 1.0) == [(5, -0.5), (2, -1.5), (7, -2.0)]


@pytest.mark.parametrize(
    ("answer", "temperature"),
    [
        ({"choices": [{"text": "hi"}]}, 1.0),
        ({"choices": [{"text": "hi", "logprobs": None}]}, 1.0),
        ({"choices": [{"text": "hi", "logprobs": None}], "__verbose": {}}, 1.0),
        ({"choices": [{"logprobs": {"content": CONTENT}}]}, 1.0),
        ({"choices": [{"logprobs": {"token_logprobs": [-1.0]}}]}, 1.0),
        (_vllm([1, 2], [-1.0]), 1.0),
        (_vllm([1], [None]), 1.0),
        (_llamacpp([{"token": "a", "logprob": -1.0}], [1]), 1.0),
        (_llamacpp(CONTENT, [5, 7, 2]), 1.0),
        (_llamacpp([{"id": 1, "prob": 0.0}]), 0.7),
        (VLLM, 0.7),
        (LLAMACPP, 0.7),
    ],
)
def test_what_is_missing_is_never_guessed(answer: dict[str, Any], temperature: float) -> None:
    """No log-probabilities, none for a token, no ids, or the temperature not in them: an error, not a zero."""
    with pytest.raises(MissingLogprobsError):
        read_tokens(answer, temperature)


@pytest.mark.parametrize(
    ("sampled", "said", "kept_back"),
    [
        ([5, 2, 7], [5, 2, 7], []),
        ([5, 8, 9, 2, 7], [5, 2, 7], [1, 2]),
        ([5, 2, 7, 8], [5, 2, 7], [3]),
        ([2, 2, 7], [2, 7], [0]),
        ([8], [], [0]),
    ],
)
def test_tokens_that_end_within_a_character_are_found(
    sampled: list[int], said: list[int], kept_back: list[int]
) -> None:
    """Within an answer, at its end, before an equal one, and alone."""
    assert places_kept_back(sampled, said) == kept_back


@pytest.mark.parametrize("temperature", [0, 0.7, 1.0])
def test_a_log_probability_of_the_whole_distribution_is_at_the_temperature(temperature: float) -> None:
    """That of softmax(l / T), where l are those at temperature 1."""
    logprobs = torch.randn(9, dtype=torch.float64).log_softmax(0)
    top = [{"id": token, "logprob": each} for token, each in enumerate(logprobs.tolist())]
    choice = {"logprobs": {"content": [{"top_logprobs": top}]}}
    expected = (logprobs / (temperature or 1)).log_softmax(0)[4].item()
    assert logprob_in(choice, 4, temperature) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(MissingLogprobsError, match="token 9"):
        logprob_in(choice, 9, temperature)


def test_truncation_is_off_and_seeds_fit() -> None:
    """Nothing but temperature shapes the distribution, and no seed becomes the one that means "any"."""
    asked = parameters(Sampling(temperature=0.7), 2**63 - 1)
    assert (asked["top_p"], asked["top_k"], asked["min_p"], asked["samplers"]) == (
        1.0,
        0,
        0.0,
        ["temperature"],
    )
    assert asked["post_sampling_probs"] is True
    assert 0 <= parameters(Sampling(), 2**32 - 1)["seed"] < 2**32 - 1


Handler = Callable[[web.Request], Any]


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Any]]:
    servers: list[TestServer] = []

    async def start(handler: Handler) -> EngineSampler:
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return EngineSampler(Endpoint(url=str(servers[-1].make_url("")).rstrip("/")), "m", max_seconds=0.5)

    yield start
    for server in servers:
        await server.close()


async def test_an_answer_is_cut_behind_its_stop_token(serve: Callable[[Handler], Any]) -> None:
    """Tokens behind the first stop token are dropped, in order of requests and seeds."""

    async def handler(request: web.Request) -> web.Response:
        body = await request.json()
        first = {"id": body["prompt"][0] * 100 + body["seed"], "logprob": -1.0}
        return web.json_response(_llamacpp([first, *CONTENT]))

    sampler = await serve(handler)
    requests = [SampleRequest((3,), (1, 2)), SampleRequest((4,), (5,))]
    found = await sampler._sample(requests, Sampling(stop_token_ids=(2,)))
    end = (-1.0, -0.5, -1.5)
    assert found == [
        [(Span((301, 5, 2), end, 0), StopReason.END), (Span((302, 5, 2), end, 0), StopReason.END)],
        [(Span((405, 5, 2), end, 0), StopReason.END)],
    ]
    found = await sampler._sample(requests[1:], Sampling())
    assert found[0][0][1] is StopReason.LENGTH


async def test_a_request_has_its_own_limit(serve: Callable[[Handler], Any]) -> None:
    """The engine is asked for as many tokens as the request says, and where it says nothing as the sampling does."""
    limits: dict[int, int] = {}

    async def handler(request: web.Request) -> web.Response:
        body = await request.json()
        limits[body["prompt"][0]] = body["max_tokens"]
        return web.json_response(LLAMACPP)

    requests = [SampleRequest((3,), (1,), max_tokens=8), SampleRequest((4,), (1,))]
    await (await serve(handler))._sample(requests, Sampling(max_tokens=24))
    assert limits == {3: 8, 4: 24}


async def test_what_llamacpp_keeps_back_is_asked_for(serve: Callable[[Handler], Any]) -> None:
    """The place's distribution is asked for behind the tokens before it, and the answer is whole."""
    asked: list[dict[str, Any]] = []

    async def handler(request: web.Request) -> web.Response:
        body = await request.json()
        if "grammar" not in body:
            return web.json_response(_llamacpp(CONTENT, [5, 8, 2, 7]))
        asked.append(body)
        top = [{"id": 8, "logprob": -3.0}, {"id": 9, "logprob": -0.1}]
        return web.json_response({"choices": [{"logprobs": {"content": [{"id": 9, "top_logprobs": top}]}}]})

    ((found,),) = await (await serve(handler))._sample([SampleRequest((3, 4), (1,))], Sampling())
    assert found[0] == Span((5, 8, 2, 7), (-0.5, -3.0, -1.5, -2.0), 0)
    assert [(each["prompt"], each["max_tokens"]) for each in asked] == [([3, 4, 5], 1)]


async def test_slow_and_failing_engines(serve: Callable[[Handler], Any]) -> None:
    """A slow answer is an empty span at its deadline; a refusal and a missing engine are errors that say so."""
    import asyncio

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=400, text="too long")

    requests = [SampleRequest((3,), (1,))]
    assert await (await serve(slow))._sample(requests, Sampling()) == [
        [(Span((), (), 0), StopReason.DEADLINE)]
    ]
    for sampler, said in (
        (await serve(refuse), "too long"),
        (EngineSampler(Endpoint(url="http://127.0.0.1:1"), "m"), "is the engine up"),
    ):
        with pytest.raises(EngineError, match=said):
            await sampler._sample(requests, Sampling())
