"""How large a student's difference is, foretold and warned of."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from distill import student_delta
from distill.pruning.pruned import with_layers
from distill.student_delta import MAX_BYTES, expected_bytes, fitting_rank, write
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.llama import Llama
from train.model.shape import LlamaShape
from train.model.trainable import moving, train_all, train_top_layers
from train.model.weights import load_llama

torch.set_num_threads(1)
SMOLLM2 = LlamaShape(
    vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_layers=12, num_heads=9, num_kv_heads=3,
    head_size=64, norm_eps=1e-5, rope_theta=1e5, max_positions=8192, is_tied=True,
)  # fmt: skip


def test_a_dozen_layers_of_smollm2_fit() -> None:
    """Twelve may be published where layers alone move; with the embedding, or one more, they may not."""
    with torch.device("meta"):
        student, larger = Llama(SMOLLM2), Llama(replace(SMOLLM2, num_layers=13))
    train_top_layers(student, 12)
    train_top_layers(larger, 13)
    assert expected_bytes(moving(student).values()) < MAX_BYTES < expected_bytes(moving(larger).values())
    train_all(student)
    assert expected_bytes(moving(student).values()) > MAX_BYTES


@pytest.mark.parametrize("quantization", ["Q4_0", "Q8_0"])
def test_what_is_written_is_what_was_foretold(
    tmp_path: Path,
    quantization: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """To a few kilobytes of headers; above the bound it is written, and said."""
    write_checkpoint(
        tmp_path / "tiny",
        tiny_shape(
            **{
                "vocab_size": 80,
                "hidden_size": 64,
                "intermediate_size": 256,
                "head_size": 16,
                "num_layers": 5,
            }
        ),
    )
    convert_to_gguf(tmp_path / "tiny", tmp_path / "tiny.gguf")
    student = with_layers(load_llama(tmp_path / "tiny"), (0, 2, 4))
    train_top_layers(student, 3)
    with torch.no_grad():
        for weight in moving(student).values():
            weight.add_(0.1)
    expected = expected_bytes(moving(student).values(), quantization=quantization)
    for bound, num_warned in ((MAX_BYTES, 0), (expected, 1)):
        monkeypatch.setattr(student_delta, "MAX_BYTES", bound)
        with caplog.at_level(logging.WARNING):
            file = GgufFile(tmp_path / "tiny.gguf")
            num_bytes = write(tmp_path, student, file, (0, 2, 4), quantization=quantization)
        assert expected <= num_bytes < expected + 8_000
        assert caplog.text.count("keep fewer layers") == num_warned


def test_twenty_layers_of_smollm2_fit_at_their_rank() -> None:
    """At the rank that is foretold products fill the bound all but 1 %; at one more they are beyond that."""
    with torch.device("meta"):
        student = Llama(replace(SMOLLM2, num_layers=20))
    train_top_layers(student, 20)
    weights = list(moving(student).values())
    rank = fitting_rank(weights)
    each = sum(2 * sum(weight.shape) for weight in weights if weight.dim() > 1)
    whole = sum(4 * weight.numel() for weight in weights if weight.dim() == 1)
    assert rank * each + whole <= 0.99 * MAX_BYTES < (rank + 1) * each + whole
    assert each == 20 * 2 * (2 * (576 + 576) + 2 * (576 + 192) + 3 * (576 + 1536))
