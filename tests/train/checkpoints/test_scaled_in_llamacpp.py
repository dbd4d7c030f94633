"""llama.cpp scales rotary positions as we do, by what our GGUF files say of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from serving.engines.base import Endpoint
from tests.engines.real_engine import running
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_shape
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.llama import Llama
from train.model.rope import RopeScaling
from train.model.weights import load_llama
from train.rollouts.engine import EngineSampler
from train.rollouts.rollout import SampleRequest, Sampling

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]

PROMPT = tuple(
    int(token) for token in torch.randint(3, 79, (300,), generator=torch.Generator().manual_seed(5))
)


@pytest.mark.parametrize(
    "scaling",
    [
        None,
        RopeScaling(kind="linear", factor=4.0),
        RopeScaling(kind="llama3", factor=8.0, original_max_positions=64),
        RopeScaling(kind="yarn", factor=4.0, original_max_positions=64),
        RopeScaling(kind="yarn", factor=4.0, original_max_positions=64, attention_factor=1.0),
    ],
    ids=str,
)
def test_log_probabilities_beyond_the_first_context(tmp_path: Path, scaling: RopeScaling | None) -> None:
    """Behind 300 tokens, where 64 are the original context, the engine's log-probabilities are ours, and another
    scaling's are not."""
    shape = tiny_shape(
        vocab_size=80, hidden_size=64, head_size=16, intermediate_size=96, rope_theta=1000.0, max_positions=1024,
        rope_scaling=scaling,
    )  # fmt: skip
    write_checkpoint(tmp_path / "a", shape)
    convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
    with running(tmp_path / "a.gguf") as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        endpoint = Endpoint(url=str(client.base_url).rstrip("/"), api_key=key, keeps_connections=False)
        sampler = EngineSampler(endpoint, client.get("/v1/models").json()["data"][0]["id"])
        sampling = Sampling(temperature=1.0, max_tokens=8, stop_token_ids=())
        ((span, _),) = sampler.sample([SampleRequest(PROMPT, (1,))], sampling)[0]
    told = torch.tensor(span.behavior_logprobs)
    model = load_llama(tmp_path / "a")
    torch.testing.assert_close(told, _ours(model, span.token_ids), rtol=0, atol=0.05)
    if scaling is not None:
        model.shape = replace(shape, rope_scaling=None)
        assert (told - _ours(model, span.token_ids)).abs().max() > 0.2


def _ours(model: Llama, answer: tuple[int, ...]) -> torch.Tensor:
    token_ids = torch.tensor([*PROMPT, *answer])
    with torch.no_grad():
        logits = logits_of(model, token_ids[:-1])[len(PROMPT) - 1 :]
    return logits.log_softmax(-1).gather(-1, torch.tensor(answer)[:, None])[:, 0]
