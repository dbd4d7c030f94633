"""A draft head after EAGLE-3 (arXiv:2503.01840): one decoder layer over what its target has just computed.

The target's states behind a low, a middle and a high layer are fused to one width; the layer reads them beside the
embedding of the token that came next, and predicts the one behind it, over a reduced vocabulary. Its own output takes
the place of fused states for the next guess. The embedding is the target's, shared by whoever runs it.

Parameters are named as vLLM reads them (`speculators_format`), and the layer is what its `llama_eagle3` computes
without `norm_before_residual`, `norm_before_fc` and `norm_output`:

    h = W_fc [low; middle; high], or the output before        x = h + W_o attention(q, k, v of [norm e; norm h])
    output = x + feed-forward(norm x)                         logits = W_head norm output

Shapes: N tokens, E width of target and head, D draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from distill.drafts.vocabulary import DraftVocabulary
from train.model.llama import Attention, FeedForward, Llama, RMSNorm, Rotation
from train.model.shape import LlamaShape

NUM_FUSED = 3


def fused_layers(num_layers: int) -> tuple[int, int, int]:
    """Behind how many layers the target's states are taken: second, middle, third from the end, as vLLM's default.

    Raises:
        ValueError: the target has too few for three distinct places.
    """
    found = (2, num_layers // 2, num_layers - 3)
    if not found[0] < found[1] < found[2]:
        raise ValueError(
            f"a target of {num_layers} layers has no low, middle and high ones; name three places"
        )
    return found


class HeadAttention(nn.Module):
    """Queries, keys and values of an embedding beside a state; the gathering is the caller's."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        width, head_size = shape.hidden_size, shape.head_size
        self.head_size = head_size
        self.q_proj = nn.Linear(2 * width, shape.num_heads * head_size, bias=False)
        self.k_proj = nn.Linear(2 * width, shape.num_kv_heads * head_size, bias=False)
        self.v_proj = nn.Linear(2 * width, shape.num_kv_heads * head_size, bias=False)
        self.o_proj = nn.Linear(shape.num_heads * head_size, width, bias=False)

    def forward(self, x: Tensor, rotation: Rotation, attend: Attention) -> Tensor:
        """(N, 2 E) → (N, E)."""
        queries, keys, values = (
            project(x).unflatten(-1, (-1, self.head_size))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        gathered = attend(0, rotation.turn(queries), rotation.turn(keys), values)
        projected: Tensor = self.o_proj(gathered.flatten(-2))
        return projected


class HeadLayer(nn.Module):
    """The decoder layer."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.self_attn = HeadAttention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.norm_eps)
        self.hidden_norm = RMSNorm(shape.hidden_size, shape.norm_eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.norm_eps)

    def forward(self, embedded: Tensor, states: Tensor, rotation: Rotation, attend: Attention) -> Tensor:
        """Both (N, E) → (N, E)."""
        beside = torch.cat((self.input_layernorm(embedded), self.hidden_norm(states)), dim=-1)
        states = states + self.self_attn(beside, rotation, attend)
        fed: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return fed


class DraftHead(nn.Module):
    """The head. Its weights are random until `start_from` or loaded.

    Args:
        shape: of its layer; width and positions are the target's, and `num_layers` is 1.
        vocabulary: what it can draft.
        fused: behind how many of the target's layers states are taken, rising.
    """

    d2t: Tensor
    t2d: Tensor

    def __init__(self, shape: LlamaShape, vocabulary: DraftVocabulary, fused: Sequence[int]) -> None:
        super().__init__()
        if len(fused) != NUM_FUSED or list(fused) != sorted(set(fused)):
            raise ValueError(f"states are taken at three places, rising; {list(fused)} are not")
        self.shape = shape
        self.vocabulary = vocabulary
        self.fused = tuple(fused)
        self.fc = nn.Linear(NUM_FUSED * shape.hidden_size, shape.hidden_size, bias=False)
        self.layers = nn.ModuleList([HeadLayer(shape)])
        self.norm = RMSNorm(shape.hidden_size, shape.norm_eps)
        self.lm_head = nn.Linear(shape.hidden_size, len(vocabulary.token_ids), bias=False)
        self.register_buffer("d2t", vocabulary.d2t)
        self.register_buffer("t2d", vocabulary.t2d)

    def forward(self, embedded: Tensor, states: Tensor, positions: Tensor, attend: Attention) -> Tensor:
        """One guess at each place: embeddings of the tokens that came next and states, both (N, E) → output (N, E)."""
        output: Tensor = self.layers[0](
            embedded, states, Rotation(positions, self.shape, states.dtype), attend
        )
        return output

    def logits(self, output: Tensor) -> Tensor:
        """(N, E) → (N, D)."""
        logits: Tensor = self.lm_head(self.norm(output))
        return logits

    def spread(self, logits: Tensor) -> Tensor:
        """(N, D) → (N, V) over the target's tokens; −∞ where nothing can be drafted."""
        everywhere = logits.new_full((*logits.shape[:-1], self.vocabulary.num_target), float("-inf"))
        everywhere[..., self.t2d] = logits
        return everywhere


@torch.no_grad()
def start_from(head: DraftHead, target: Llama, *, seed: int) -> None:
    """Begin as the target's last layer over its high states, with its norm and output rows.

    What reads the embedding is new and begins small, at GPT-2's deviation of 0.02.
    """
    generator = torch.Generator().manual_seed(seed)
    width = head.shape.hidden_size
    head.fc.weight.zero_()
    head.fc.weight[:, -width:] = torch.eye(width)
    last, layer = target.model.layers[-1], head.layers[0]
    for name in ("q_proj", "k_proj", "v_proj"):
        weight = layer.get_parameter(f"self_attn.{name}.weight")
        weight[:, :width] = 0.02 * torch.randn(len(weight), width, generator=generator)
        weight[:, width:] = last.get_parameter(f"self_attn.{name}.weight")
    layer.self_attn.o_proj.weight.copy_(last.self_attn.o_proj.weight)
    layer.mlp.load_state_dict(last.mlp.state_dict())
    layer.hidden_norm.weight.copy_(last.input_layernorm.weight)
    layer.post_attention_layernorm.weight.copy_(last.post_attention_layernorm.weight)
    head.norm.weight.copy_(target.model.norm.weight)
    head.lm_head.weight.copy_(target.lm_head.weight[list(head.vocabulary.token_ids)])


def new_head(target: Llama, vocabulary: DraftVocabulary, fused: Sequence[int], *, seed: int) -> DraftHead:
    """A head for this target, begun from it."""
    head = DraftHead(replace(target.shape, num_layers=1, is_tied=False), vocabulary, fused)
    start_from(head.to(target.lm_head.weight.dtype), target, seed=seed)
    return head
