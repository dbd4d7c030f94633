"""A Llama: tokens in, hidden states out. It knows neither batches nor caches: whoever calls it says how tokens attend.

Tokens come as one flat line, whatever sequences they belong to; all but attention treats each by itself. So nothing is
padded outside attention, what sequences share is computed once (`tree_attention`), and a decoder reads its keys from a
cache (`decoder`). Parameters are named as transformers names them, and the numbers are those of its
`LlamaForCausalLM`.

Shapes: N tokens, E hidden size, H query heads, K key heads, D head size, V vocabulary.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from train.model.frequencies import frequencies
from train.model.precision import products_in
from train.model.shape import LlamaShape


class Attention(Protocol):
    """How the tokens of a line see one another."""

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Queries (N, H, D), keys and values (N, K, D) of the layer → what each token gathers, (N, H, D)."""
        ...


class RMSNorm(nn.Module):
    """x / rms(x), weighted (arXiv:1910.07467); in single precision at least."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(N, E) → (N, E)."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Rotation:
    """Rotary positions (arXiv:2104.09864), halves paired as transformers pairs them.

    Args:
        positions: (N,), of each token in its own sequence.
        shape: theta, scaling and head size.
        dtype: of the states that are turned; the angles are computed in single precision.
    """

    def __init__(self, positions: Tensor, shape: LlamaShape, dtype: torch.dtype) -> None:
        angles = positions.float()[:, None] * frequencies(shape, positions.device)
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        magnitude = 1.0 if shape.rope_scaling is None else shape.rope_scaling.magnitude
        self._cos, self._sin = ((turn * magnitude).to(dtype) for turn in (angles.cos(), angles.sin()))

    def turn(self, states: Tensor) -> Tensor:
        """(N, heads, D) → the same, turned."""
        first, second = states.chunk(2, dim=-1)
        return states * self._cos + torch.cat((-second, first), dim=-1) * self._sin


class SelfAttention(nn.Module):
    """The four projections, and the rotation; the gathering itself is the caller's."""

    def __init__(self, shape: LlamaShape, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_size = shape.head_size
        self.q_proj = nn.Linear(shape.hidden_size, shape.num_heads * shape.head_size, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, shape.num_kv_heads * shape.head_size, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, shape.num_kv_heads * shape.head_size, bias=False)
        self.o_proj = nn.Linear(shape.num_heads * shape.head_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, rotation: Rotation, attend: Attention) -> Tensor:
        """(N, E) → what each token gathers, (N, H · D); `o_proj` is the caller's, for the tokens that go on."""
        queries, keys, values = (
            project(x).unflatten(-1, (-1, self.head_size))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        return attend(self.layer, rotation.turn(queries), rotation.turn(keys), values).flatten(-2)


class FeedForward(nn.Module):
    """SwiGLU (arXiv:2002.05202)."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, E) → (N, E)."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and feed-forward, each behind a norm and around a residual."""

    def __init__(self, shape: LlamaShape, layer: int) -> None:
        super().__init__()
        self.self_attn = SelfAttention(shape, layer)
        self.mlp = FeedForward(shape)
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.norm_eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.norm_eps)

    def forward(
        self, x: Tensor, rotation: Rotation, attend: Attention, wanted: Tensor | None = None
    ) -> Tensor:
        """(N, E) → (N, E), or the rows alone that are `wanted`."""
        gathered = self.self_attn(self.input_layernorm(x), rotation, attend)
        if wanted is not None:
            x, gathered = x.index_select(0, wanted), gathered.index_select(0, wanted)
        x = x + self.self_attn.o_proj(gathered)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """Embedding, layers and the last norm; called `model` in the names of parameters."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape, layer) for layer in range(shape.num_layers))
        self.norm = RMSNorm(shape.hidden_size, shape.norm_eps)


class Llama(nn.Module):
    """The model. Its weights are random until loaded (`weights.load_llama`)."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.precision: torch.dtype | None = None
        """Of products; None: that of the weights (`precision`)."""
        self.model = Trunk(shape)
        self.lm_head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)
        if shape.is_tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, token_ids: Tensor, positions: Tensor, attend: Attention) -> Tensor:
        """Token ids and positions (N,) → normed hidden states (N, E); `logits` makes predictions of them."""
        states = self.model.embed_tokens(token_ids)
        return self.model.norm(self.through(states, positions, attend, range(self.shape.num_layers)))

    def through(
        self,
        states: Tensor,
        positions: Tensor,
        attend: Attention,
        layers: range,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Some of the layers alone: states (N, E) before the first of them → after the last.

        Where rows are `wanted` the last layer computes no more than these, and these are what comes back.
        """
        rotation = Rotation(positions, self.shape, states.dtype)
        with products_in(self.precision, states.device):
            for layer in layers:
                is_last = layer == layers[-1]
                states = self.model.layers[layer](states, rotation, attend, wanted if is_last else None)
        return states.index_select(0, wanted) if wanted is not None and not layers else states

    def logits(self, hidden: Tensor) -> Tensor:
        """Normed hidden states (…, E) → logits of the next token (…, V)."""
        return self.lm_head(hidden)
