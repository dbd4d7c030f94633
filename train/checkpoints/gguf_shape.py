"""The sizes of a Llama in GGUF's metadata, read and written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_scaling import read_scaling, scaling_metadata
from train.model.shape import LlamaShape


def read_shape(file: GgufFile) -> LlamaShape:
    """The sizes.

    Raises:
        CheckpointError: another architecture, a key is missing, or a part of the family that is not computed here.
    """
    architecture = file.need("general.architecture")
    if architecture != "llama":
        raise CheckpointError(
            f"{file.path} is a {architecture!r}; only the Llama family ('llama') is trained here"
        )
    num_heads = int(file.need("llama.attention.head_count"))
    hidden_size = int(file.need("llama.embedding_length"))
    shape = LlamaShape(
        vocab_size=len(file.need("tokenizer.ggml.tokens")),
        hidden_size=hidden_size,
        intermediate_size=int(file.need("llama.feed_forward_length")),
        num_layers=int(file.need("llama.block_count")),
        num_heads=num_heads,
        num_kv_heads=int(file.get("llama.attention.head_count_kv", num_heads)),
        head_size=int(file.get("llama.attention.key_length", hidden_size // num_heads)),
        # single precision in the file: 1e-5 comes back as 9.99…e-6
        norm_eps=float(f"{file.need('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        rope_theta=float(f"{file.get('llama.rope.freq_base', 10_000.0):.6g}"),
        max_positions=int(file.need("llama.context_length")),
        is_tied="output.weight" not in file.tensors,
    )
    return replace(shape, rope_scaling=read_scaling(file, shape))


def shape_metadata(shape: LlamaShape) -> dict[str, Any]:
    """Keys and values, ints as GGUF's uint32 and floats as its float32."""
    found: dict[str, Any] = {
        "llama.block_count": shape.num_layers,
        "llama.context_length": shape.max_positions,
        "llama.embedding_length": shape.hidden_size,
        "llama.feed_forward_length": shape.intermediate_size,
        "llama.attention.head_count": shape.num_heads,
        "llama.attention.head_count_kv": shape.num_kv_heads,
        "llama.attention.key_length": shape.head_size,
        "llama.attention.value_length": shape.head_size,
        "llama.rope.dimension_count": shape.head_size,
        "llama.rope.freq_base": shape.rope_theta,
        "llama.attention.layer_norm_rms_epsilon": shape.norm_eps,
        "llama.vocab_size": shape.vocab_size,
    }
    return found | scaling_metadata(shape)
