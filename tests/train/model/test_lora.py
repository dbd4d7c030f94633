"""Adapters: merged weights do the same, files are peft's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import PeftModel

from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import reference_llama, tiny_llama
from train.model.llama import Llama
from train.model.lora import adapters, add_lora, load_adapter, merge, save_adapter

torch.set_num_threads(1)
TOKENS = torch.arange(11)


def adapted(seed: int = 0) -> Llama:
    model = tiny_llama(dtype=torch.float32)
    add_lora(model, rank=3, alpha=6, seed=seed, num_layers=2)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, adapter in adapters(model):
            adapter.lora_B.copy_(torch.randn(adapter.lora_B.shape, generator=draw))
    return model


@torch.no_grad()
def test_merging_changes_nothing() -> None:
    """A merged model has plain maps and the adapted model's logits, which are not the base's."""
    model = adapted()
    before = logits_of(model, TOKENS)
    assert (before - logits_of(tiny_llama(dtype=torch.float32), TOKENS)).abs().max() > 0.1
    merge(model)
    assert not list(adapters(model))
    torch.testing.assert_close(logits_of(model, TOKENS), before, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)  # by peft, of transformers
def test_peft_reads_the_files(tmp_path: Path) -> None:
    """Peft, on transformers' model, gives our adapted model's logits; and so does our own reading."""
    model = adapted()
    save_adapter(model, tmp_path, base="tiny")
    theirs = PeftModel.from_pretrained(reference_llama(tiny_llama(dtype=torch.float32)), str(tmp_path))
    expected = logits_of(model, TOKENS)
    torch.testing.assert_close(theirs(TOKENS[None]).logits[0], expected, rtol=1e-4, atol=1e-4)
    again = adapted(seed=5)
    load_adapter(again, tmp_path)
    torch.testing.assert_close(logits_of(again, TOKENS), expected, rtol=0, atol=0)
    other = tiny_llama(dtype=torch.float32)
    add_lora(other, rank=3, alpha=6, seed=0, num_layers=1)
    with pytest.raises(ValueError, match="adapts other modules"):
        load_adapter(other, tmp_path)
