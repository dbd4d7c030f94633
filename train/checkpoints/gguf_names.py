"""How GGUF names and orders the weights of a Llama, and how safetensors does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from serving.engines.llama_names import IN_LAYER
from train.model.shape import LlamaShape

_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
Array = npt.NDArray[Any]


def tensor_names(shape: LlamaShape) -> dict[str, str]:
    """GGUF name → safetensors name of every weight, in the order in which GGUF files have them."""
    names = {"token_embd.weight": _OUTER["token_embd.weight"]}
    for layer in range(shape.num_layers):
        for theirs, ours in IN_LAYER.items():
            names[f"blk.{layer}.{theirs}.weight"] = f"model.layers.{layer}.{ours}.weight"
    names["output_norm.weight"] = _OUTER["output_norm.weight"]
    return names if shape.is_tied else names | {"output.weight": _OUTER["output.weight"]}


def num_rotated_heads(gguf_name: str, shape: LlamaShape) -> int | None:
    """Of a weight whose rows GGUF orders otherwise: its heads. None for all other weights."""
    return {"attn_q": shape.num_heads, "attn_k": shape.num_kv_heads}.get(gguf_name.split(".")[-2])


def from_gguf_order(rows: Array, num_heads: int) -> Array:
    """The way back of `serving.engines.llama_names.to_gguf_order`."""
    pairs = rows.reshape(num_heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))
