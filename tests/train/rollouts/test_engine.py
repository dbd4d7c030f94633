"""Sampling from an engine: honest log-probabilities or none. On a real one: `checkpoints/test_llamacpp_agrees`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from serving.engines.base import Endpoint, EngineError
from train.rollouts.engine import EngineSampler, parameters, read_tokens
from train.rollouts.rollout import MissingLogprobsError, SampleRequest, Sampling, Span, StopReason

LLAMACPP = {
    "logprobs": {
        "content": [{"id": 5, "logprob": -0.5}, {"id": 2, "logprob": -1.5}, {"id": 7, "logprob": -2}]
    }
}
VLLM = {"token_ids": [5, 2, 7], "logprobs": {"token_logprobs": [-0.5, -1.5, -2.0]}}


@pytest.mark.parametrize("choice", [LLAMACPP, VLLM])
def test_both_spellings_are_read(choice: dict[str, Any]) -> None:
    """llama.cpp's and vLLM's answers give the same ids and log-probabilities."""
    assert read_tokens(choice, 1.0) == [(5, -0.5), (2, -1.5), (7, -2.0)]


@pytest.mark.parametrize(
    ("choice", "temperature"),
    [
        ({"text": "hi"}, 1.0),
        ({"text": "hi", "logprobs": None}, 1.0),
        ({"logprobs": {"token_logprobs": [-1.0]}}, 1.0),
        ({"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0]}}, 1.0),
        ({"token_ids": [1], "logprobs": {"token_logprobs": [None]}}, 1.0),
        ({"logprobs": {"content": [{"token": "a", "logprob": -1.0}]}}, 1.0),
        ({"logprobs": {"content": [{"id": 1, "prob": 0.0}]}}, 0.7),
        (VLLM, 0.7),
        (LLAMACPP, 0.7),
    ],
)
def test_what_is_missing_is_never_guessed(choice: dict[str, Any], temperature: float) -> None:
    """No log-probabilities, none for a token, no ids, or the temperature not in them: an error, not a zero."""
    with pytest.raises(MissingLogprobsError):
        read_tokens(choice, temperature)


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
        content = [first, *LLAMACPP["logprobs"]["content"]]
        return web.json_response({"choices": [{"logprobs": {"content": content}, "finish_reason": "length"}]})

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
        return web.json_response({"choices": [LLAMACPP]})

    requests = [SampleRequest((3,), (1,), max_tokens=8), SampleRequest((4,), (1,))]
    await (await serve(handler))._sample(requests, Sampling(max_tokens=24))
    assert limits == {3: 8, 4: 24}


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
