"""Attention in a tree of tokens (`tree`): blocks of similar shape are one call, padded here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from train.model.tree import PIECE_TOKENS, Block, TokenTree, cut

BLOCK_TOKENS = 64
"""Of `tree.cut`. At a head size of 64 on one core, attention is then a twentieth of the linear maps' time."""
_SPARE_SHARE = 0.25  # of a batch's products, and
_SPARE_PRODUCTS = 4096  # of queries and keys may be padding: these take as long as another call


class TreeAttention:
    """What each token of a tree sees: itself and all that it follows.

    One long sequence that does not branch is left to the library's causal attention, whose memory grows with the length
    and not with its square.

    Args:
        tree: the line.
        dtype: of the states.
        device: where they are.
    """

    def __init__(self, tree: TokenTree, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        self._is_line = PIECE_TOKENS < len(tree.ends) == min(tree.ends)
        if self._is_line:
            return
        ends = torch.tensor(tree.ends, dtype=torch.long)
        batches = list(_alike(cut(tree, BLOCK_TOKENS)))
        self._batches = [_Batch(blocks, ends, dtype, device) for blocks in batches]
        rows: dict[int, int] = {}
        offset = 0
        for blocks in batches:
            longest = max(block.num_queries for block in blocks)
            for block in blocks:
                rows |= zip(range(block.start, block.stop), range(offset, offset + longest), strict=False)
                offset += longest
        order = [rows[token] for token in range(len(tree.ends))]
        self._order = None if order == list(range(offset)) else torch.tensor(order, device=device)

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As `llama.Attention`."""
        if self._is_line:
            return _causal(queries, keys, values)
        parts = [batch.gather(queries, keys, values) for batch in self._batches]
        gathered = parts[0] if len(parts) == 1 else torch.cat(parts)
        return gathered if self._order is None else gathered.index_select(0, self._order)


class _Batch:
    """Blocks that are attended in one call."""

    def __init__(
        self, blocks: Sequence[Block], ends: Tensor, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        num_queries = max(block.num_queries for block in blocks)
        num_seen = max(block.num_seen for block in blocks)
        # a block is filled up with its first token: as a query it sees itself, as a key it is hidden
        looks = torch.tensor(
            [_filled(range(block.start, block.stop), block.start, num_queries) for block in blocks]
        )
        seen = torch.tensor(
            [
                _filled([*block.before, *range(block.start, block.stop)], block.start, num_seen)
                for block in blocks
            ]
        )
        is_token = torch.arange(num_seen) < torch.tensor([[block.num_seen] for block in blocks])
        later, earlier = looks[:, :, None], seen[:, None]
        sees = (earlier <= later) & (later < ends[earlier]) & is_token[:, None]
        hidden = torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, float("-inf"))
        self._shape = looks.shape
        self._num_seen = num_seen
        self._looks, self._seen = looks.flatten().to(device), seen.flatten().to(device)
        self._hidden = hidden[:, None].to(device)

    def gather(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """What its tokens gather, block by block, each filled up: (blocks · queries, H, D)."""
        num = self._shape[0]
        looking = queries.index_select(0, self._looks).unflatten(0, self._shape)
        keys, values = (
            states.index_select(0, self._seen).unflatten(0, (num, self._num_seen))
            for states in (keys, values)
        )
        gathered = functional.scaled_dot_product_attention(
            looking.transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=self._hidden,
            enable_gqa=True,
        )
        return gathered.transpose(1, 2).flatten(0, 1)


def _causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Queries (N, H, D), keys and values (N, K, D) → (N, H, D)."""
    gathered = functional.scaled_dot_product_attention(
        *(states.transpose(0, 1)[None] for states in (queries, keys, values)), is_causal=True, enable_gqa=True
    )
    return gathered[0].transpose(0, 1)


def _filled(places: Sequence[int], filler: int, num: int) -> list[int]:
    return [*places, *[filler] * (num - len(places))]


def _alike(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Batches of blocks, the largest first, in which little is padding."""
    batch: list[Block] = []
    products = 0
    for block in sorted(blocks, key=lambda each: (each.num_queries, each.num_seen), reverse=True):
        batch.append(block)
        products += block.num_queries * block.num_seen
        padded = len(batch) * batch[0].num_queries * max(each.num_seen for each in batch)
        if len(batch) > 1 and padded > (1 + _SPARE_SHARE) * products + _SPARE_PRODUCTS:
            yield batch[:-1]
            batch, products = [block], block.num_queries * block.num_seen
    if batch:
        yield batch
