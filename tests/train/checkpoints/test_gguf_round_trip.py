"""Safetensors → GGUF → safetensors, on a tiny model with a tokenizer of its own: nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, dequantize, quantize
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer, LlamaForCausalLM

from serving.engines.llama_names import to_gguf_order
from serving.engines.requantize import open_model, requantize
from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.checkpoints.directory import CheckpointError
from train.checkpoints.from_gguf import convert_from_gguf
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_names import from_gguf_order
from train.checkpoints.gguf_shape import read_shape
from train.checkpoints.pretokenizers import IGNORES_MERGES, PRE_TOKENIZERS
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.rope import RopeScaling
from train.model.shape import LlamaShape
from train.model.weights import load_llama, save_llama

torch.set_num_threads(1)
TEXT = "the quick brown fox jumps over the lazy dog 12345 times; it isn't tired, the dog is. <|end|>"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}<|end|>{% endfor %}"


def write_checkpoint(place: Path, shape: LlamaShape, pre: str = "smollm") -> None:
    place.mkdir()
    tokenizer = Tokenizer(BPE(ignore_merges=pre in IGNORES_MERGES))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    end = AddedToken("<|end|>", special=True, normalized=False)
    trainer = BpeTrainer(vocab_size=shape.vocab_size - 2, show_progress=False, special_tokens=[end])
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    tokenizer.save(str(place / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "chat_template": TEMPLATE}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    save_llama(tiny_llama(shape, dtype=torch.float32), place)


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe"])
@pytest.mark.parametrize(
    "shape",
    [
        tiny_shape(vocab_size=80),
        tiny_shape(vocab_size=80, is_tied=False, rope_scaling=RopeScaling(kind="linear", factor=2.0)),
    ],
    ids=["tied", "untied"],
)
def test_nothing_is_lost(tmp_path: Path, shape: LlamaShape, pre: str) -> None:
    """Weights come back to the bit; shape, tokens, special tokens and chat template come back; all of it loads."""
    write_checkpoint(tmp_path / "a", shape, pre)
    convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
    (tmp_path / "b").mkdir()
    convert_from_gguf(GgufFile(tmp_path / "a.gguf"), tmp_path / "b")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    ours = load_llama(tmp_path / "b")
    assert ours.shape == shape
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "b")
    source = Tokenizer.from_file(str(tmp_path / "a/tokenizer.json"))
    assert tokenizer(TEXT)["input_ids"] == source.encode(TEXT).ids
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT
    assert tokenizer.eos_token == "<|end|>"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi<|end|>"
    token_ids = torch.arange(12)
    with torch.no_grad():
        theirs = LlamaForCausalLM.from_pretrained(tmp_path / "b", dtype=torch.float32)(
            token_ids[None]
        ).logits[0]
        torch.testing.assert_close(logits_of(ours, token_ids), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "scaling",
    [
        RopeScaling(kind="yarn", factor=4.0, original_max_positions=64),
        RopeScaling(kind="yarn", factor=3.0, original_max_positions=64, beta_fast=8.0, attention_factor=1.25),
        RopeScaling(kind="llama3", factor=8.0, original_max_positions=32),
    ],
    ids=str,
)
def test_scaling_is_carried(tmp_path: Path, scaling: RopeScaling) -> None:
    """Both ways of scaling that are more than a factor come back, through a quantised file as well."""
    shape = tiny_shape(vocab_size=80, hidden_size=64, head_size=16, rope_scaling=scaling)
    write_checkpoint(tmp_path / "a", shape)
    convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
    assert read_shape(GgufFile(tmp_path / "a.gguf")) == shape
    requantize(open_model(tmp_path / "a.gguf"), tmp_path / "q.gguf", quantization="Q8_0")
    assert read_shape(GgufFile(tmp_path / "q.gguf")) == shape


def test_scaling_of_another_kind_is_refused(tmp_path: Path) -> None:
    """Divisors that are not Llama 3's would be computed wrongly."""
    scaling = RopeScaling(kind="llama3", factor=8.0, original_max_positions=32, low_freq_factor=2.0)
    write_checkpoint(tmp_path / "a", tiny_shape(vocab_size=80, head_size=16, rope_scaling=scaling))
    convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
    with pytest.raises(CheckpointError, match="in a way of its own"):
        read_shape(GgufFile(tmp_path / "a.gguf"))


def test_half_precision_and_metadata_of_another_file(tmp_path: Path) -> None:
    """Halves come back as halves; with `like`, tokenizer files are not needed and a misfit is refused."""
    shape = tiny_shape(vocab_size=80)
    write_checkpoint(tmp_path / "a", shape)
    convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "a" / name).unlink()
    convert_to_gguf(tmp_path / "a", tmp_path / "half.gguf", float_type="F16", like=tmp_path / "a.gguf")
    first, half = GgufFile(tmp_path / "a.gguf"), GgufFile(tmp_path / "half.gguf")
    name = "blk.1.attn_q.weight"
    assert np.array_equal(half.weight(name), first.weight(name).astype(np.float16).astype(np.float32))
    assert half.get("tokenizer.ggml.tokens") == first.get("tokenizer.ggml.tokens")
    assert half.quantization() == "F16"
    save_llama(tiny_llama(tiny_shape(), dtype=torch.float32), tmp_path / "a")
    with pytest.raises(CheckpointError, match="80 tokens, the model 61"):
        convert_to_gguf(tmp_path / "a", tmp_path / "no.gguf", like=tmp_path / "a.gguf")


@pytest.mark.parametrize("quantization", ["Q8_0", "Q4_0", "Q4_1"])
def test_quantised_weights_become_the_numbers_that_they_stand_for(tmp_path: Path, quantization: str) -> None:
    """A matrix of a quantised file is what the gguf library dequantises it to, in transformers' order of rows."""
    shape = tiny_shape(vocab_size=80, hidden_size=64, head_size=16, intermediate_size=96)
    write_checkpoint(tmp_path / "a", shape)
    convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
    requantize(open_model(tmp_path / "a.gguf"), tmp_path / "q.gguf", quantization=quantization)
    (tmp_path / "b").mkdir()
    convert_from_gguf(GgufFile(tmp_path / "q.gguf"), tmp_path / "b")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    kind = GGMLQuantizationType[quantization]
    for name in ("model.layers.0.self_attn.q_proj.weight", "model.layers.2.mlp.down_proj.weight"):
        expected = dequantize(quantize(before[name].numpy(), kind), kind)
        assert np.array_equal(after[name].numpy(), expected)
        assert not torch.equal(after[name], before[name])


def test_rows_by_hand() -> None:
    """Two heads of four rows: GGUF has first halves and second halves in turn."""
    rows = np.arange(8)[:, None]
    assert to_gguf_order(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert np.array_equal(from_gguf_order(to_gguf_order(rows, 2), 2), rows)
    wide = np.arange(12)[:, None]
    assert to_gguf_order(wide, 2)[:, 0].tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert np.array_equal(from_gguf_order(to_gguf_order(wide, 2), 2), wide)


def test_what_cannot_be_converted_is_said(tmp_path: Path) -> None:
    """A file that is none, one that is absent, and weights that are missing are named with what to do."""
    (tmp_path / "no.gguf").write_bytes(b"GGUF" + b"\0" * 4)
    with pytest.raises(CheckpointError, match="not a whole GGUF"):
        GgufFile(tmp_path / "no.gguf")
    with pytest.raises(CheckpointError, match="correct the path"):
        GgufFile(tmp_path / "absent.gguf")
    write_checkpoint(tmp_path / "a", tiny_shape(vocab_size=80))
    (tmp_path / "a/model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        convert_to_gguf(tmp_path / "a", tmp_path / "a.gguf")
