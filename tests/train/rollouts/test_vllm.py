"""Pushing adapters, to a server that only keeps the books. On a real one: `test_vllm_server`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp import web
from aiohttp.test_utils import TestServer
from safetensors.torch import load_file

from serving.engines.base import Endpoint, EngineError
from tests.train.test_publish import SHAPE
from train.model.llama import Llama
from train.model.lora import adapters, add_lora
from train.recipe import RecipeError, load_recipe
from train.rollouts.rollout import SampleRequest, Sampling
from train.rollouts.vllm import VllmSampler, pushing

REQUESTS = [SampleRequest((1, 2, 3), (7,))]


class FakeVllm:
    """Keeps what is loaded, checks that an adapter is whole when it is told of it, and answers with one token."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.most_loaded = 0
        self.asked: list[str] = []
        self.refusal: web.Response | None = None
        self.delay_s = 0.0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/load_lora_adapter", self.load)
        app.router.add_post("/v1/unload_lora_adapter", self.unload)
        app.router.add_post("/v1/completions", self.complete)
        return app

    async def load(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.delay_s)
        if self.refusal is not None:
            return self.refusal
        body = await request.json()
        path = Path(body["lora_path"])
        assert json.loads((path / "adapter_config.json").read_text())["r"] == 2
        assert load_file(path / "adapter_model.safetensors")
        assert body["lora_name"] not in self.loaded
        self.loaded.append(body["lora_name"])
        self.most_loaded = max(self.most_loaded, len(self.loaded))
        return web.Response(text="Success")

    async def unload(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if name not in self.loaded:
            return web.Response(status=404, text="cannot be found")
        self.loaded.remove(name)
        return web.Response(text="Success")

    async def complete(self, request: web.Request) -> web.Response:
        self.asked.append((await request.json())["model"])
        choice: dict[str, Any] = {"token_ids": [5], "logprobs": {"token_logprobs": [-0.5]}}
        return web.json_response({"choices": [{**choice, "finish_reason": "length"}]})


@pytest.fixture
async def vllm() -> AsyncIterator[tuple[FakeVllm, Endpoint]]:
    fake = FakeVllm()
    server = TestServer(fake.app())
    await server.start_server()
    yield fake, Endpoint(url=str(server.make_url("")).rstrip("/"))
    await server.close()


@pytest.fixture
def model() -> Llama:
    model = Llama(SHAPE)
    add_lora(model, rank=2, alpha=4.0, seed=0)
    return model


def move(model: Llama, by: float) -> None:
    with torch.no_grad():
        for _, adapter in adapters(model):
            adapter.lora_B.add_(by)


async def test_each_version_is_an_adapter_of_its_own(
    vllm: tuple[FakeVllm, Endpoint], model: Llama, tmp_path: Path
) -> None:
    """Names tell version and weights; the one before goes, from server and disk, when the next is there."""
    fake, endpoint = vllm
    sampler = VllmSampler(model, endpoint, tmp_path / "mine", base="base")
    names = []
    for version, by in ((0, 0.0), (0, 0.0), (1, 0.1), (1, 0.1)):
        move(model, by)
        await asyncio.to_thread(sampler.update, version)
        [name] = fake.loaded
        names.append(name)
        assert [path.name for path in (tmp_path / "mine").iterdir() if path.name != ".part"] == [name]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert [name.split("-")[:2] for name in names] == [["mine", "0"]] * 2 + [["mine", "1"]] * 2
    assert (sampler.policy_version, sampler.adapter, fake.most_loaded) == (1, names[-1], 2)


async def test_answers_are_the_pushed_adapters(
    vllm: tuple[FakeVllm, Endpoint], model: Llama, tmp_path: Path
) -> None:
    """The first answer waits for a push; spans bear the version, requests the adapter; in the end none is left."""
    fake, endpoint = vllm

    def run() -> list[int | None]:
        versions = []
        with pushing(model, endpoint, tmp_path / "scratch", base="base") as sampler:
            for version in (0, 3):
                if version:
                    sampler.update(version)
                [[(span, _)]] = sampler.sample(REQUESTS, Sampling(max_tokens=1))
                versions.append(span.policy_version)
                assert fake.asked[-1] == sampler.adapter
        return versions

    assert await asyncio.to_thread(run) == [0, 3]
    assert not fake.loaded
    assert not list((tmp_path / "scratch").iterdir())


async def test_what_is_refused_changes_nothing(
    vllm: tuple[FakeVllm, Endpoint], model: Llama, tmp_path: Path
) -> None:
    """A server without runtime updates is told with the remedy; the version stays what it has; then it goes on."""
    fake, endpoint = vllm
    sampler = VllmSampler(model, endpoint, tmp_path / "mine", base="base")
    await asyncio.to_thread(sampler.update, 1)
    before = sampler.adapter
    move(model, 0.1)
    fake.refusal = web.json_response({"detail": "Not Found"}, status=404)
    remedy = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, --enable-lora and --max-lora-rank of at least 2"
    with pytest.raises(EngineError, match=f"404.*Not Found.*{remedy}"):
        await asyncio.to_thread(sampler.update, 2)
    assert (sampler.policy_version, sampler.adapter, fake.loaded) == (1, before, [before])
    fake.refusal = None
    fake.loaded.clear()  # the server was started again
    await asyncio.to_thread(sampler.update, 2)
    assert fake.loaded == [sampler.adapter] != [before]


async def test_no_wait_is_for_ever(vllm: tuple[FakeVllm, Endpoint], model: Llama, tmp_path: Path) -> None:
    """A server that holds a push up, or is not there, is an error that says where to look; closing it then is quiet."""
    fake, endpoint = vllm
    fake.delay_s = 5
    slow = VllmSampler(model, endpoint, tmp_path / "slow", base="base", max_push_s=0.2)
    with pytest.raises(EngineError, match="did not answer within"):
        await asyncio.to_thread(slow.update, 1)
    gone = VllmSampler(model, Endpoint(url="http://127.0.0.1:1"), tmp_path / "gone", base="base")
    with pytest.raises(EngineError, match="is the engine up"):
        await asyncio.to_thread(gone.sample, REQUESTS, Sampling())
    await asyncio.to_thread(gone.close)


@pytest.mark.parametrize(
    ("changed", "remedy"),
    [
        ({"adapt.method": "top_layers"}, "adapt.method"),
        ({"rl.temperature": 0.7}, "temperature 1"),
        ({"rl.exploration": "active"}, "temperature 1"),
        ({"replay": {}}, "replay"),
        ({"base": {"type": "scratch"}}, "artifact"),
        ({"rl.rollouts_url": "127.0.0.1:8000"}, "rollouts_url"),
    ],
)
def test_recipes_that_no_engine_could_answer_are_refused(changed: dict[str, object], remedy: str) -> None:
    """A server answers for adapters of a checkpoint at temperature 1; whatever else is said before a run begins."""
    asked = {"rl.rollouts_url": "http://127.0.0.1:8000", "adapt.method": "lora"}
    assert load_recipe("r2", overrides=dict(asked)).rl.rollouts_url == "http://127.0.0.1:8000"
    with pytest.raises(RecipeError, match=remedy):
        load_recipe("r2", overrides={**asked, **changed})
