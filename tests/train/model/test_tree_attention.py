"""Sharing changes what is computed, not what comes out."""

from __future__ import annotations

import pytest
import torch

from tests.train.model.test_llama import logits_of
from tests.train.model.test_tree import sequences
from tests.train.model.tiny import tiny_llama
from train.model import tree, tree_attention
from train.model.tree import PIECE_TOKENS, grow
from train.model.tree_attention import TreeAttention

torch.set_num_threads(1)


@pytest.mark.parametrize("block_tokens", [1, 5, 64])
@pytest.mark.parametrize("num_kinds", [2, 61])
def test_each_sequence_is_as_if_alone(
    num_kinds: int, block_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits in a tree equal those of each sequence alone, however the line is cut into blocks and pieces."""
    monkeypatch.setattr(tree_attention, "BLOCK_TOKENS", block_tokens)
    monkeypatch.setattr(tree, "PIECE_TOKENS", 4)
    model = tiny_llama()
    given = sequences(25, 2, most=20, num_kinds=num_kinds)
    shared = grow(given)
    hidden = model(
        torch.tensor(shared.token_ids),
        torch.tensor(shared.positions),
        TreeAttention(shared, torch.float64),
    )
    for sequence, path in zip(given, shared.paths, strict=True):
        if sequence:
            alone = logits_of(model, torch.tensor(sequence))
            torch.testing.assert_close(model.logits(hidden[list(path)]), alone, rtol=0, atol=1e-12)


def test_many_small_groups_are_one_call() -> None:
    """Sixty-four short sequences that share nothing are a batch or two, not sixty-four."""
    attend = TreeAttention(grow([(index, 7, 8, 9)[: 2 + index % 3] for index in range(64)]), torch.float32)
    assert len(attend._batches) <= 2


def test_a_long_line_is_attended_as_a_tree_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sequence of more than a piece, by the library's causal attention and by blocks."""
    generator = torch.Generator().manual_seed(3)
    num = PIECE_TOKENS + 40
    one = grow([list(range(num))])
    queries = torch.randn(num, 4, 6, generator=generator, dtype=torch.float64)
    keys, values = (torch.randn(num, 2, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    line = TreeAttention(one, torch.float64)
    monkeypatch.setattr(tree_attention, "PIECE_TOKENS", num)
    blocks = TreeAttention(one, torch.float64)
    assert (line._is_line, blocks._is_line) == (True, False)
    torch.testing.assert_close(line(0, queries, keys, values), blocks(0, queries, keys, values))
