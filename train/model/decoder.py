"""The same Llama made for sampling: projections fused, linear maps as wanted (`linear`), keys and values in a cache.

It has no gradients and holds its weights apart from the model's where they are fused or quantised: after a step of the
learner it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from train.model.linear import LinearMap
from train.model.llama import Attention, Llama, Rotation
from train.model.lora import effective_weight
from train.model.precision import held_in, products_in
from train.model.trainable import moves
from train.model.tree import TokenTree, grow

BUCKET_TOKENS = 64
"""Caches are read to a multiple of it, so that the order of summation does not depend on the longest in the batch."""


@dataclass(frozen=True, slots=True)
class _Layer:
    first_norm: Tensor
    project_in: LinearMap
    """Queries, keys and values."""
    project_out: LinearMap
    second_norm: Tensor
    gate_up: LinearMap
    down: LinearMap


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prompt that has been computed."""

    keys: Tensor
    """(layers, K, P, D)."""
    values: Tensor
    logits: Tensor
    """(V,): of the token behind it."""

    @property
    def length(self) -> int:
        """Its tokens."""
        return self.keys.shape[2]


class Decoder:
    """A model to sample from.

    Args:
        model: read now, adapters merged.
        make_linear: `linear.FloatLinear` or `linear.Int8Linear`.
        before: of the same model and linear maps, read earlier: layers in which nothing moves are taken from it.
    """

    @torch.no_grad()
    def __init__(
        self, model: Llama, make_linear: Callable[[Tensor], LinearMap], *, before: Decoder | None = None
    ) -> None:
        self.shape = model.shape
        self.precision = model.precision
        self._embedding = model.model.embed_tokens.weight.detach()
        self._layers = [
            _read(layer, make_linear, self.precision)
            if before is None or moves(layer)
            else before._layers[index]
            for index, layer in enumerate(model.model.layers)
        ]
        self._norm = model.model.norm.weight.detach().clone()
        self.logits = (
            make_linear(model.lm_head.weight.detach())
            if before is None or moves(model.lm_head)
            else before.logits
        )
        """Normed hidden states (rows, E) → logits (rows, V)."""

    def hidden(self, token_ids: Tensor, positions: Tensor, attend: Attention) -> Tensor:
        """Normed hidden states (N, E), as `llama.Llama`."""
        states = self._embedding[token_ids]
        rotation = Rotation(positions, self.shape, states.dtype)
        with products_in(self.precision, states.device):
            for index, layer in enumerate(self._layers):
                states = states + self._attention(index, layer, states, rotation, attend)
                gate, up = layer.gate_up(self._normed(states, layer.second_norm)).chunk(2, dim=-1)
                states = states + layer.down(functional.silu(gate) * up)
        return self._normed(states, self._norm)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._embedding.device

    @property
    def cache_dtype(self) -> torch.dtype:
        """Of keys and values that are kept."""
        return self._embedding.dtype if self.precision is None else self.precision

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        """Compute prompts; what they begin with alike is computed once."""
        device = self._embedding.device
        tree = grow(prompts)
        attend = _PromptAttention(tree, device)
        hidden = self.hidden(
            torch.tensor(tree.token_ids, device=device), torch.tensor(tree.positions, device=device), attend
        )
        logits = self.logits(hidden[[path[-1] for path in tree.paths]])
        keys, values = (torch.stack(states).transpose(1, 2) for states in (attend.keys, attend.values))
        places = (torch.tensor(path, device=device) for path in tree.paths)
        return [
            Prefix(keys[:, :, place], values[:, :, place], of_prompt)
            for place, of_prompt in zip(places, logits, strict=True)
        ]

    def _attention(
        self, index: int, layer: _Layer, states: Tensor, rotation: Rotation, attend: Attention
    ) -> Tensor:
        shape = self.shape
        heads = layer.project_in(self._normed(states, layer.first_norm)).unflatten(-1, (-1, shape.head_size))
        turned = rotation.turn(heads[:, : shape.num_heads + shape.num_kv_heads])
        queries, keys = turned.split((shape.num_heads, shape.num_kv_heads), dim=1)
        gathered = attend(index, queries, keys, heads[:, -shape.num_kv_heads :])
        return layer.project_out(gathered.flatten(1))

    def _normed(self, states: Tensor, weight: Tensor) -> Tensor:
        return weight * (states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + self.shape.norm_eps))


class Cache:
    """Keys and values of `num_slots` sequences of up to `max_tokens` tokens."""

    def __init__(self, decoder: Decoder, num_slots: int, max_tokens: int) -> None:
        shape = decoder.shape
        size = (
            shape.num_layers,
            num_slots,
            shape.num_kv_heads,
            -(-max_tokens // BUCKET_TOKENS) * BUCKET_TOKENS,
        )
        self.keys, self.values = (
            torch.zeros((*size, shape.head_size), dtype=decoder.cache_dtype, device=decoder.device)
            for _ in range(2)
        )

    def begin(self, slot: int, prefix: Prefix) -> None:
        """Let a sequence start behind a prompt."""
        self.keys[:, slot, :, : prefix.length] = prefix.keys
        self.values[:, slot, :, : prefix.length] = prefix.values

    def move(self, source: int, target: int, length: int) -> None:
        """Put a sequence of `length` tokens into another slot."""
        for states in (self.keys, self.values):
            states[:, target, :, :length] = states[:, source, :, :length]


class CacheAttention:
    """One new token for each of the first slots of a cache: it is written, and sees all before it.

    Args:
        cache: written to.
        lengths: (slots,), tokens before the new one.
        longest: the largest of them.
    """

    def __init__(self, cache: Cache, lengths: Tensor, longest: int) -> None:
        self._cache = cache
        self._slots = torch.arange(len(lengths), device=lengths.device)
        self._lengths = lengths
        self._stop = (longest // BUCKET_TOKENS + 1) * BUCKET_TOKENS
        is_hidden = torch.arange(self._stop, device=lengths.device) > lengths[:, None]
        self._is_hidden = is_hidden[:, None, None]

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As `llama.Attention`."""
        all_keys, all_values = self._cache.keys[layer], self._cache.values[layer]
        all_keys[self._slots, :, self._lengths] = keys.to(all_keys.dtype)
        all_values[self._slots, :, self._lengths] = values.to(all_values.dtype)
        num = len(self._slots)
        # heads that share keys are rows of one product; plain products, because the fused attention's order of
        # summation depends on how the batch is dealt to threads
        grouped = queries.unflatten(1, (keys.shape[1], -1)) * queries.shape[-1] ** -0.5
        scores = grouped @ all_keys[:num, :, : self._stop].transpose(-1, -2)
        shares = scores.masked_fill(self._is_hidden, float("-inf")).softmax(-1)
        return (shares @ all_values[:num, :, : self._stop]).flatten(1, 2)


class _PromptAttention:
    """Attention in a tree of prompts, and the keys and values that it has seen.

    A token's result must not depend, to the bit, on which prompts are beside its own. So every prompt is attended from
    its start, in products whose shapes depend on the place in it alone: `BUCKET_TOKENS` queries, and all keys up to
    the last of them. Where prompts share tokens they find the same, and one of them is kept.
    """

    def __init__(self, tree: TokenTree, device: torch.device) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []
        """By place in the prompts: queries (B, T), keys (B, S), and what is hidden (T, S)."""
        places: list[int] = []  # in the parts' results, of each token that is found in them
        for start in range(0, max(map(len, tree.paths)), BUCKET_TOKENS):
            stop = start + BUCKET_TOKENS
            rows = [path for path in tree.paths if len(path) > start]
            filled = [[*path[:stop], *[path[0]] * (stop - len(path))] for path in rows]
            seen = torch.tensor(filled, device=device)
            steps = torch.arange(stop, device=device)
            self._parts.append((seen[:, start:], seen, steps > steps[start:, None]))
            for path in rows:
                places += [*path[start:stop], *[-1] * (stop - len(path))]
        where = {token: place for place, token in enumerate(places)}
        self._order = torch.tensor([where[token] for token in range(len(tree.token_ids))], device=device)

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As `llama.Attention`."""
        self.keys.append(keys)
        self.values.append(values)
        parts = [
            _plain(queries[looks], keys[seen], values[seen], hidden).flatten(0, 1)
            for looks, seen, hidden in self._parts
        ]
        return torch.cat(parts).index_select(0, self._order)


def _plain(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """Queries (B, T, H, D), keys and values (B, S, K, D) → (B, T, H, D), by plain products."""
    num_repeats = queries.shape[2] // keys.shape[2]
    grouped = (queries * queries.shape[-1] ** -0.5).unflatten(2, (-1, num_repeats)).permute(0, 2, 3, 1, 4)
    scores = grouped.flatten(2, 3) @ keys.permute(0, 2, 3, 1)  # (B, K, repeats · T, S)
    shares = scores.unflatten(2, (num_repeats, -1)).masked_fill(hidden, float("-inf")).softmax(-1)
    gathered = shares.flatten(2, 3) @ values.transpose(1, 2)
    return gathered.unflatten(2, (num_repeats, -1)).permute(0, 3, 1, 2, 4).flatten(2, 3)


def _read(
    layer: torch.nn.Module, make_linear: Callable[[Tensor], LinearMap], precision: torch.dtype | None
) -> _Layer:
    """Weights are held in the precision of products, so that no step turns them again."""

    def fused(parent: str, *names: str) -> LinearMap:
        weights = [effective_weight(layer.get_submodule(f"{parent}.{name}")) for name in names]
        return make_linear(held_in(precision, torch.cat(weights)))

    return _Layer(
        layer.get_parameter("input_layernorm.weight").detach().clone(),
        fused("self_attn", "q_proj", "k_proj", "v_proj"),
        fused("self_attn", "o_proj"),
        layer.get_parameter("post_attention_layernorm.weight").detach().clone(),
        fused("mlp", "gate_proj", "up_proj"),
        fused("mlp", "down_proj"),
    )
