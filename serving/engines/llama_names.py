"""How GGUF names and orders the weights inside a Llama's layers, and how safetensors does."""

from __future__ import annotations

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


def to_gguf_order(rows: npt.NDArray[Any], num_heads: int) -> npt.NDArray[Any]:
    """Rows of a query or key matrix: pairs that rotate together stand side by side in GGUF.

    In transformers the second of each pair stands half a head further on.
    """
    pairs = rows.reshape(num_heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))
