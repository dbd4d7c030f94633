"""Attention in sequences of one length: B rows of T tokens, flat as (B · T). Shorter rows are filled up behind their
end, where nothing before sees it.

Shapes as in `train.model.llama`: N = B · T tokens, H query heads, K key heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class CausalRows:
    """Each token sees its row up to itself; a `llama.Attention`."""

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As `llama.Attention`."""
        gathered = functional.scaled_dot_product_attention(
            *(by_row(states, self._num_rows) for states in (queries, keys, values)),
            is_causal=True,
            enable_gqa=True,
        )
        return gathered.transpose(1, 2).flatten(0, 1)


class ChainRows:
    """What a head sees while it drafts, from every token of a row at once (training-time test, arXiv:2503.01840, 3.1).

    The first call is depth 0: each token, as the root of a chain, sees its row up to itself. At depth j the token at
    place r stands j places behind its root r: it sees what the root saw, and the chain's own tokens, itself last. Calls
    come in order of depth, always of one layer.
    """

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As `llama.Attention`."""
        share = queries.shape[1] // keys.shape[1]
        looking = by_row(queries, self._num_rows) * queries.shape[-1] ** -0.5
        self._keys.append(by_row(keys, self._num_rows).repeat_interleave(share, 1))
        self._values.append(by_row(values, self._num_rows).repeat_interleave(share, 1))
        rooted = looking @ self._keys[0].transpose(-1, -2)
        num = rooted.shape[-1]
        is_later = torch.ones(num, num, dtype=torch.bool, device=queries.device).triu(1)
        rooted = rooted.masked_fill(is_later, float("-inf"))
        chain = [torch.linalg.vecdot(looking, each)[..., None] for each in self._keys[1:]]
        weights = torch.cat((rooted, *chain), dim=-1).softmax(-1)
        gathered = weights[..., :num] @ self._values[0]
        for index, each in enumerate(self._values[1:]):
            gathered = gathered + weights[..., num + index, None] * each
        return gathered.transpose(1, 2).flatten(0, 1)


def by_row(states: Tensor, num_rows: int) -> Tensor:
    """(N, heads, D) → (B, heads, T, D)."""
    return states.unflatten(0, (num_rows, -1)).transpose(1, 2)
