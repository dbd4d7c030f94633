"""An exported head comes back, and vLLM reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from distill.drafts.head import DraftHead, new_head
from distill.drafts.rows import CausalRows
from distill.drafts.speculators_format import load_head, save_head
from distill.drafts.vocabulary import DraftVocabulary
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.checkpoints.directory import CheckpointError

torch.set_num_threads(1)
SHAPE = tiny_shape(num_layers=6, hidden_size=64, head_size=32, num_heads=2, num_kv_heads=1)
IDS = (0, 2, 3, 5, 60)


@pytest.fixture
def head() -> DraftHead:
    return new_head(tiny_llama(SHAPE, dtype=torch.float32), DraftVocabulary(IDS, 61), (2, 3, 5), seed=0)


def _logits(head: DraftHead) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    embedded, fused = (torch.randn(7, size, generator=generator) for size in (64, 192))
    with torch.no_grad():
        return head.logits(head(embedded, head.fc(fused), torch.arange(7), CausalRows(1)))


def test_logits_come_back(head: DraftHead, tmp_path: Path) -> None:
    """Weights loaded back give the same logits, to the bit, and the same vocabulary and places."""
    save_head(head, tmp_path, verifier="target", num_drafts=3)
    again = load_head(tmp_path)
    assert torch.equal(_logits(again), _logits(head))
    assert (again.vocabulary, again.fused, again.shape) == (head.vocabulary, head.fused, head.shape)


def test_names_and_shapes(head: DraftHead, tmp_path: Path) -> None:
    """Those that `llama_eagle3` of vLLM 0.32 reads, and nothing else; the embedding is left to the target."""
    save_head(head, tmp_path, verifier="target", num_drafts=3)
    layer = {
        "input_layernorm": (64,), "hidden_norm": (64,), "post_attention_layernorm": (64,),
        "self_attn.q_proj": (64, 128), "self_attn.k_proj": (32, 128), "self_attn.v_proj": (32, 128),
        "self_attn.o_proj": (64, 64),
        "mlp.gate_proj": (40, 64), "mlp.up_proj": (40, 64), "mlp.down_proj": (64, 40),
    }  # fmt: skip
    expected = {f"layers.0.{name}.weight": shape for name, shape in layer.items()}
    expected |= {"fc.weight": (64, 192), "norm.weight": (64,), "lm_head.weight": (5, 64)}
    expected |= {"d2t": (5,), "t2d": (61,)}
    saved = load_file(tmp_path / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in saved.items()} == expected
    assert saved["d2t"].dtype == torch.long
    assert saved["t2d"].dtype == torch.bool


def test_what_is_no_head_is_refused(head: DraftHead, tmp_path: Path) -> None:
    """A model's directory, an option not computed here, weights that do not fit: each is said."""
    save_head(head, tmp_path, verifier="target", num_drafts=3)
    config = json.loads((tmp_path / "config.json").read_text())
    for changed, said in (
        ({"speculators_model_type": "eagle"}, "no EAGLE-3 head"),
        ({"norm_before_residual": True}, "not computed here"),
        ({"transformer_layer_config": {**config["transformer_layer_config"], "hidden_size": 32}}, "disagree"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | changed))
        with pytest.raises(CheckpointError, match=said):
            load_head(tmp_path)
