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

from train.model.groups import GroupAttention, lay_out, positions_of
from train.model.linear import LinearMap
from train.model.llama import Attention, Llama, Rotation
from train.model.lora import effective_weight

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
    """

    @torch.no_grad()
    def __init__(self, model: Llama, make_linear: Callable[[Tensor], LinearMap]) -> None:
        self.shape = model.shape
        self._embedding = model.model.embed_tokens.weight.detach()
        self._layers = [_read(layer, make_linear) for layer in model.model.layers]
        self._norm = model.model.norm.weight.detach().clone()
        self.logits = make_linear(model.lm_head.weight.detach())
        """Normed hidden states (rows, E) → logits (rows, V)."""

    def hidden(self, token_ids: Tensor, positions: Tensor, attend: Attention) -> Tensor:
        """Normed hidden states (N, E), as `llama.Llama`."""
        states = self._embedding[token_ids]
        rotation = Rotation(positions, self.shape, states.dtype)
        for index, layer in enumerate(self._layers):
            states = states + self._attention(index, layer, states, rotation, attend)
            gate, up = layer.gate_up(self._normed(states, layer.second_norm)).chunk(2, dim=-1)
            states = states + layer.down(functional.silu(gate) * up)
        return self._normed(states, self._norm)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        """Compute prompts, laid end to end."""
        layouts = lay_out([len(prompt) for prompt in prompts], [[] for _ in prompts])
        attend = _Recording(GroupAttention(layouts, self._embedding.device))
        line = torch.tensor([token for prompt in prompts for token in prompt], device=self._embedding.device)
        hidden = self.hidden(line, positions_of(layouts).to(line.device), attend)
        logits = self.logits(hidden[[layout.stop - 1 for layout in layouts]])
        keys, values = (torch.stack(states).transpose(1, 2) for states in (attend.keys, attend.values))
        return [
            Prefix(
                keys[:, :, layout.start : layout.stop],
                values[:, :, layout.start : layout.stop],
                logits[index],
            )
            for index, layout in enumerate(layouts)
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
        shape, like = decoder.shape, decoder._embedding
        size = (
            shape.num_layers,
            num_slots,
            shape.num_kv_heads,
            -(-max_tokens // BUCKET_TOKENS) * BUCKET_TOKENS,
        )
        self.keys = like.new_zeros((*size, shape.head_size))
        self.values = like.new_zeros((*size, shape.head_size))

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
        all_keys[self._slots, :, self._lengths] = keys
        all_values[self._slots, :, self._lengths] = values
        num = len(self._slots)
        # heads that share keys are rows of one product; plain products, because the fused attention's order of
        # summation depends on how the batch is dealt to threads
        grouped = queries.unflatten(1, (keys.shape[1], -1)) * queries.shape[-1] ** -0.5
        scores = grouped @ all_keys[:num, :, : self._stop].transpose(-1, -2)
        shares = scores.masked_fill(self._is_hidden, float("-inf")).softmax(-1)
        return (shares @ all_values[:num, :, : self._stop]).flatten(1, 2)


class _Recording:
    def __init__(self, attend: Attention) -> None:
        self._attend = attend
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        self.keys.append(keys)
        self.values.append(values)
        return self._attend(layer, queries, keys, values)


def _read(layer: torch.nn.Module, make_linear: Callable[[Tensor], LinearMap]) -> _Layer:
    def fused(parent: str, *names: str) -> LinearMap:
        weights = [effective_weight(layer.get_submodule(f"{parent}.{name}")) for name in names]
        return make_linear(torch.cat(weights))

    return _Layer(
        layer.get_parameter("input_layernorm.weight").detach().clone(),
        fused("self_attn", "q_proj", "k_proj", "v_proj"),
        fused("self_attn", "o_proj"),
        layer.get_parameter("post_attention_layernorm.weight").detach().clone(),
        fused("mlp", "gate_proj", "up_proj"),
        fused("mlp", "down_proj"),
    )
