"""Quantised files in real llama.cpp: it loads them, says what we say of what we read back, and is timed in turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from distill.quantization import gguf_files
from distill.quantization.engine_speed import speeds
from distill.quantization.files import Files
from distill.quantization.types import parse_types
from distill.quantize import with_weights
from serving.engines.brought_up import brought_up
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.settings_sources import environment
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.model.weights import load_llama
from train.rollouts.engine import EngineSampler
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import SampleRequest, Sampling

torch.set_num_threads(1)
KINDS = parse_types("q8_0,q4_0,q4_k")
REQUESTS = [SampleRequest((3, 14, 15, 9, 26, 5), (0,)), SampleRequest((40, 2, 7), (0,))]
SAMPLING = Sampling(temperature=0.0, max_tokens=6)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Of a tiny model whose layers' weights are small, as trained ones are, so that rounding is little."""
    shape = tiny_shape(
        vocab_size=80, num_layers=2, hidden_size=64, intermediate_size=256, head_size=32, num_heads=2,
        num_kv_heads=1, max_positions=1024,
    )  # fmt: skip
    write_checkpoint(tmp_path / "tiny", shape)
    path = tmp_path / "tiny" / "model.safetensors"
    state = {name: each / 2 if "_proj" in name else each for name, each in load_file(path).items()}
    save_file(state, path, metadata={"format": "pt"})
    (tmp_path / "files").mkdir()
    made = Files("tiny", load_llama(tmp_path / "tiny"), tmp_path / "tiny", tmp_path / "files")
    for kind in KINDS:
        made.write(kind)
    return made


def served(path: Path, log: Path) -> list[tuple[tuple[int, ...], tuple[float, ...] | None]]:
    async def asked() -> list[tuple[tuple[int, ...], tuple[float, ...] | None]]:
        engine = LlamaCppEngine(LlamaCppSettings(threads=1, slots=1, context_tokens=512, prompt_cache_mib=0))
        async with brought_up(engine, path, log, environment(), name="tiny") as (endpoint, able):
            sampler = EngineSampler(endpoint, able.model_id)
            rows = await asyncio.to_thread(sampler.sample, REQUESTS, SAMPLING)
            return [(span.token_ids, span.behavior_logprobs) for [(span, _)] in rows]

    return asyncio.run(asked())


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_it_says_what_was_measured(files: Files, tmp_path: Path) -> None:
    """Of each type, Q4_K with Q5_0 beside it included, the same greedy tokens, at nearly the same log-probabilities.

    Nearly: it rounds activations to eight bits, which this model of random weights feels more than a trained one.
    """
    whole = load_llama(tmp_path / "tiny")
    for kind in KINDS:
        read = with_weights(whole, gguf_files.read(files.path(kind), whole.shape))
        ours = [span for [(span, _)] in InProcessSampler(read).sample(REQUESTS, SAMPLING)]
        for mine, (token_ids, logprobs) in zip(ours, served(files.path(kind), tmp_path / "log"), strict=True):
            assert token_ids == mine.token_ids
            assert logprobs is not None
            assert mine.behavior_logprobs is not None
            apart = torch.tensor(logprobs) - torch.tensor(mine.behavior_logprobs)
            assert apart.abs().max() < 0.25


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_timed_in_turn(files: Files, tmp_path: Path) -> None:
    """Every GGUF file, the one in single precision too; one that is damaged is told; a directory is for vLLM."""
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(b"GGUF")
    models = [*files.wholes(), *files.paths(), cut, tmp_path]
    found = speeds(models, tmp_path / "logs", threads=1, num_rounds=2, num_tokens=8)
    assert found.keys() == set(models) - {tmp_path}
    assert found[cut].tokens_per_s is None
    assert "is cut off" in found.pop(cut).fault
    for each in found.values():
        assert (each.engine, each.fault) == ("llama.cpp", "")
        assert each.tokens_per_s is not None
        assert each.tokens_per_s > 1
