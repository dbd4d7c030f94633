"""How GGUF names and orders the weights inside a Llama's layers, and how safetensors does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

IN_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's name of a part of a layer → safetensors', in the order in which GGUF files have them."""

_LAYER: Final = re.compile(r"blk\.(\d+)\.(.+)")


def renumbered(name: str, kept_layers: Sequence[int]) -> str | None:
    """What a weight is called in a model that has these layers alone; None where it is in none of them."""
    found = _LAYER.fullmatch(name)
    if found is None:
        return name
    layer = int(found[1])
    return f"blk.{kept_layers.index(layer)}.{found[2]}" if layer in kept_layers else None


def to_gguf_order(rows: npt.NDArray[Any], num_heads: int) -> npt.NDArray[Any]:
    """Rows of a query or key matrix: pairs that rotate together stand side by side in GGUF.

    In transformers the second of each pair stands half a head further on.
    """
    pairs = rows.reshape(num_heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))
