"""A policy in llama.cpp, exported and published: it says what its own forward pass says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from serving.bringup.materialize import engine_model
from serving.engines.base import Endpoint
from serving.registry.reference import parse_alias
from serving.registry.store import Store
from tests.engines.real_engine import running
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.test_publish import SHAPE, quiet, write_run
from train.base import Wishes as BaseWishes
from train.base import bring_in
from train.batch import Credit, Group
from train.export import export
from train.model.llama import Llama
from train.model.lora import merge
from train.model.policy import LlamaPolicy
from train.model.weights import load_llama
from train.publish import Wishes, publish
from train.rollouts.engine import EngineSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span, StopReason
from train.trained import load_trained

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]
torch.set_num_threads(1)


@dataclass(frozen=True)
class Made:
    store: Store
    run: Path
    trained: Llama
    """Merged."""
    base: Llama


@pytest.fixture(params=["top_layers", "lora"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    store = Store(tmp_path / "registry")
    write_checkpoint(tmp_path / "tiny", SHAPE)
    base = bring_in(str(tmp_path / "tiny"), store, BaseWishes(licence="MIT"), quiet())
    run = write_run(tmp_path / "run", store, str(base.reference), request.param, scale=0.1)
    trained = load_trained(run, store, quiet()).model
    merge(trained)
    return Made(store, run, trained, load_llama(tmp_path / "tiny"))


def test_exported_it_says_the_same(made: Made, tmp_path: Path) -> None:
    """In single precision the engine's log-probabilities are the policy's but for its half caches, not the base's."""
    path = export(str(made.run), tmp_path / "out", made.store, quiet(), is_gguf=True)
    told, groups = sampled(path)
    torch.testing.assert_close(told, scored(made.trained, groups), rtol=0, atol=0.05)
    assert (told - scored(made.base, groups)).abs().max() > 0.5


def test_published_it_is_the_policy_not_the_base(made: Made) -> None:
    """By its alias and in eight bits, activations too, it is several times nearer to the policy than the base is."""
    publish(made.run, made.store, Wishes(name="policy", alias=parse_alias("full@stable")), quiet())
    told, groups = sampled(engine_model(made.store, "full@stable", quiet(), quantization="Q8_0"))
    near, far = ((told - scored(model, groups)).abs().mean() for model in (made.trained, made.base))
    assert near < far / 3


def sampled(path: Path) -> tuple[Tensor, list[Group]]:
    """What the engine drew, and its log-probabilities, (tokens,)."""
    prompts = [(1, 5, 9, 13, 17), (3, 30, 40)]
    with running(path) as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        endpoint = Endpoint(url=str(client.base_url).rstrip("/"), api_key=key, keeps_connections=False)
        sampler = EngineSampler(endpoint, client.get("/v1/models").json()["data"][0]["id"])
        sampling = Sampling(temperature=1.0, max_tokens=16, stop_token_ids=(0,))
        answers = sampler.sample([SampleRequest(prompt, (1, 2, 3)) for prompt in prompts], sampling)
    told = [each for row in answers for span, _ in row for each in span.behavior_logprobs or ()]
    assert len(told) > 20
    groups = [
        Group("any", prompt, tuple(_credit(prompt, span) for span, _ in row))
        for prompt, row in zip(prompts, answers, strict=True)
    ]
    return torch.tensor(told), groups


@torch.no_grad()
def scored(model: Llama, groups: list[Group]) -> Tensor:
    return LlamaPolicy(model).score(groups).logprobs


def _credit(prompt: tuple[int, ...], span: Span) -> Credit:
    zeros = (0.0,) * len(span.token_ids)
    return Credit(Rollout((Span(prompt), span), StopReason.END), zeros, zeros)
