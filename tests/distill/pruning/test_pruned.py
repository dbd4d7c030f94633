"""The layers that are left are a model of their own, wherever it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from distill.pruning.pruned import with_channels, with_layers, write_checkpoint
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint as write_tiny
from tests.train.model.test_llama import logits_of
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.checkpoints.from_gguf import convert_from_gguf
from train.checkpoints.gguf_file import GgufFile
from train.model.weights import load_llama

torch.set_num_threads(1)
TOKENS = torch.arange(12)


@pytest.mark.parametrize("is_tied", [True, False])
def test_transformers_and_gguf_have_the_same_logits(tmp_path: Path, is_tied: bool) -> None:
    """Written, a pruned model is what transformers loads with equal logits, and what its GGUF holds."""
    write_tiny(tmp_path / "whole", tiny_shape(vocab_size=80, num_layers=5, is_tied=is_tied))
    pruned = with_layers(load_llama(tmp_path / "whole"), (0, 3, 4))
    pruned = with_channels(pruned, (tuple(range(4, 36)), tuple(range(32)), tuple(range(1, 33))))
    write_checkpoint(pruned, tmp_path / "whole", tmp_path / "pruned", has_gguf=True)
    theirs = LlamaForCausalLM.from_pretrained(tmp_path / "pruned", dtype=torch.float32).eval()
    (tmp_path / "back").mkdir()
    convert_from_gguf(GgufFile(tmp_path / "pruned" / "model.gguf"), tmp_path / "back")
    with torch.no_grad():
        ours = logits_of(pruned, TOKENS)
        torch.testing.assert_close(theirs(TOKENS[None]).logits[0], ours, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(logits_of(load_llama(tmp_path / "back"), TOKENS), ours)
    assert (pruned.shape.num_layers, pruned.shape.intermediate_size) == (3, 32)


def test_it_shares_no_weights() -> None:
    """What is trained of the pruned model leaves the whole as it was, and a tied output matrix stays tied."""
    whole = tiny_llama(tiny_shape())
    pruned = with_layers(whole, (0, 2))
    before = whole.model.norm.weight.clone()
    with torch.no_grad():
        for weight in pruned.parameters():
            weight.add_(1)
    assert torch.equal(whole.model.norm.weight, before)
    assert pruned.lm_head.weight is pruned.model.embed_tokens.weight


@pytest.mark.parametrize("kept", [((0, 1),) * 2, ((0, 1), (0,), (0, 1)), ((0, 40),) * 3, ((),) * 3])
def test_channels_that_are_not_there_are_refused(kept: tuple[tuple[int, ...], ...]) -> None:
    """Of too few layers, not as many of each, one too high, none at all."""
    with pytest.raises(ValueError, match="name as many"):
        with_channels(tiny_llama(tiny_shape()), kept)


@pytest.mark.parametrize("kept", [(), (0, 3), (-1,)])
def test_layers_that_are_not_there_are_refused(kept: tuple[int, ...]) -> None:
    """None at all, one too high, one below nought."""
    with pytest.raises(ValueError, match="name some of them"):
        with_layers(tiny_llama(tiny_shape()), kept)
