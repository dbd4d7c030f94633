"""Tiny random Llamas, ours and transformers' with the same weights."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from train.model.llama import Llama
from train.model.shape import LlamaShape


def tiny_shape(**changes: object) -> LlamaShape:
    """Two query heads to a key head, sizes that are no multiples of anything convenient."""
    sizes: dict[str, object] = {
        "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_layers": 3, "num_heads": 4,
        "num_kv_heads": 2,
        "head_size": 6, "norm_eps": 1e-5, "rope_theta": 100.0, "max_positions": 256, "is_tied": True,
    }  # fmt: skip
    return LlamaShape(**{**sizes, **changes})  # type: ignore[arg-type]


def tiny_llama(
    shape: LlamaShape | None = None, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Llama:
    """Weights large enough that every part matters to the predictions."""
    torch.manual_seed(seed)
    model = Llama(shape or tiny_shape()).to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(
                torch.randn(weight.shape) * (0.3 if weight.dim() == 2 else 0.2) + (weight.dim() == 1)
            )
    return model


def reference_llama(model: Llama) -> LlamaForCausalLM:
    """Transformers' model with the same weights."""
    config = LlamaConfig(**model.shape.as_config(), attn_implementation="sdpa")
    reference = LlamaForCausalLM(config).to(model.lm_head.weight.dtype)
    reference.load_state_dict(model.state_dict())
    return reference.eval()
