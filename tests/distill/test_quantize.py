"""Types are written, measured as they were written, and left behind only where they pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from distill.calibration import CalibrationText
from distill.quantization import gguf_files
from distill.quantization.activations import round_activations, rounded
from distill.quantization.bar import Bar
from distill.quantization.report import Speed
from distill.quantization.types import parse_types
from distill.quantize import Subject, agreements, quantize, with_weights
from serving.engines.requantize import RequantizeError
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.checkpoints.gguf_file import GgufFile
from train.model.weights import load_llama, state_of

torch.set_num_threads(1)
TEXTS = [
    CalibrationText("sums", (1, 2, 3, 4), (5, 6, 7)),
    CalibrationText("sums", (1, 2, 3, 9), (8, 7)),
    CalibrationText("words", (11, 12), (13, 14, 15, 16)),
]


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """Rows of 64 and of 256: q4_k is both Q4_K and Q5_0 there, as in SmolLM2."""
    shape = tiny_shape(vocab_size=80, hidden_size=64, intermediate_size=256, head_size=16)
    write_checkpoint(tmp_path / "tiny", shape)
    return Subject(
        name="tiny",
        model=load_llama(tmp_path / "tiny"),
        start=tmp_path / "tiny",
        texts=TEXTS,
        sha256="0" * 64,
    )


def test_every_type(subject: Subject, tmp_path: Path) -> None:
    """Files and figures for each; fewer bits are further apart and smaller, and nothing else is left lying about."""
    kinds = parse_types("q8_0,q4_0,q4_k,w8a16,w8a8,w4a16")
    report = quantize(subject, kinds, tmp_path / "out", bar=Bar())
    found = {each.type: each for each in report.types}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {each.file for each in report.types}
    assert all(set(each.agreements) == {"sums", "words"} and not each.reasons for each in report.types)
    apart = {name: each.divergence for name, each in found.items()}
    assert 0 < apart["q8_0"] < apart["q4_k"] < apart["q4_0"]
    assert 0 < apart["w8a16"] < apart["w4a16"]
    assert apart["w8a16"] < apart["w8a8"]
    assert found["q4_0"].size_bytes < found["q4_k"].size_bytes < found["q8_0"].size_bytes
    total = {sum(each.num_weights.values()) for each in report.types}
    assert total == {report.num_parameters}
    layers = subject.model.shape.num_layers
    assert found["q4_k"].num_weights["Q4_K"] == layers * 256 * 64
    assert found["q4_k"].num_weights["Q8_0"] == 80 * 64
    assert found["w4a16"].num_weights["int4"] == layers * (3 * 64 * 256 + 2 * 64 * 64 + 2 * 64 * 32)


def test_a_gguf_stands_for_its_numbers(subject: Subject, tmp_path: Path) -> None:
    """Its embedding is there once, at Q8_0, and what was measured is the model of the file."""
    [each] = quantize(subject, parse_types("q4_k"), tmp_path / "out", bar=Bar()).types
    path = tmp_path / "out" / each.file
    tensors = GgufFile(path).tensors
    assert tensors["token_embd.weight"].tensor_type.name == "Q8_0"
    assert "output.weight" not in tensors
    read = with_weights(subject.model, gguf_files.read(path, subject.model.shape))
    assert read.lm_head.weight is read.model.embed_tokens.weight
    assert agreements(subject.model, read, TEXTS) == each.agreements


def test_what_fails_is_not_left_behind(subject: Subject, tmp_path: Path) -> None:
    """Of two types the one too far apart is named with the domain, and its file is gone; the other stays."""
    out = tmp_path / "out"
    both = quantize(subject, parse_types("q8_0,q4_0"), out, bar=Bar())
    good, bad = (max(one.mean_divergence for one in each.agreements.values()) for each in both.types)
    again = quantize(subject, parse_types("q8_0,q4_0"), tmp_path / "gated", bar=Bar((good + bad) / 2))
    [failed] = again.failed
    assert failed.type == "q4_0"
    [reason] = failed.reasons
    worst = max(failed.agreements, key=lambda name: failed.agreements[name].mean_divergence)
    assert f"nats a token apart in {worst}" in reason
    assert [path.name for path in (tmp_path / "gated").iterdir()] == ["tiny-q8_0.gguf"]
    assert [each["passes"] for each in again.as_json()["types"]] == [True, False]


def test_a_type_that_cannot_be_leaves_nothing(tmp_path: Path) -> None:
    """Rows that do not divide are refused before anything is measured, whatever was written before."""
    shape = tiny_shape(vocab_size=80, hidden_size=64, intermediate_size=96, head_size=16)
    write_checkpoint(tmp_path / "tiny", shape)
    model = load_llama(tmp_path / "tiny")
    subject = Subject(name="tiny", model=model, start=tmp_path / "tiny", texts=TEXTS, sha256="0" * 64)
    with pytest.raises(RequantizeError, match="ask for Q5_0"):
        quantize(subject, parse_types("q8_0,q4_k"), tmp_path / "out", bar=Bar())
    assert not list((tmp_path / "out").iterdir())


def test_speed_is_of_all_at_once(subject: Subject, tmp_path: Path) -> None:
    """One call has every file, and the model itself for either engine, before any is moved or thrown away."""
    calls = []

    def speeds(models: Sequence[Path]) -> dict[Path, Speed]:
        assert all(path.exists() for path in models)
        calls.append([path.name for path in models])
        whole, checkpoint, directory, file = models
        return {
            whole: Speed("llama.cpp", 10.0),
            checkpoint: Speed("vLLM", 8.0),
            directory: Speed("vLLM", None, "no kernel"),
            file: Speed("llama.cpp", 30.0),
        }

    report = quantize(subject, parse_types("w4a16,q8_0"), tmp_path / "out", bar=Bar(0.0), speeds=speeds)
    assert calls == [["unquantised.gguf", "tiny", "tiny-w4a16", "tiny-q8_0.gguf"]]
    assert report.speeds == (Speed("llama.cpp", 10.0), Speed("vLLM", 8.0))
    assert [each.speed for each in report.types] == [
        Speed("vLLM", None, "no kernel"),
        Speed("llama.cpp", 30.0),
    ]


def test_rounded_activations() -> None:
    """By hand: 127 steps of the largest. A model that rounds says nearly the same, and not the same."""
    x = torch.tensor([[127.0, 0.4, -1.6], [0.0, 0.0, 0.0]])
    assert rounded(x).tolist() == [[127.0, 0.0, -2.0], [0.0, 0.0, 0.0]]
    model = tiny_llama(dtype=torch.float32)
    rounding = with_weights(model, state_of(model))
    round_activations(rounding)
    with torch.no_grad():
        apart = (logits_of(rounding, torch.arange(9)) - logits_of(model, torch.arange(9))).abs().max()
    assert 1e-4 < apart < 1.0
