"""A head as one GGUF file, which llama.cpp drafts with beside the model that it was trained for.

Laid out after what llama.cpp (b11549, `src/models/eagle3.cpp`) reads, which computes what `head` does: a Llama's sizes
and tokenizer under the architecture `eagle3`, which of the model's states are taken, and

    fc    blk.0.attn_norm of embeddings, attn_norm_2 of states, attn_*, ffn_*    output_norm    output
    d2t   target ids of the draft vocabulary, int64

The embedding is left out: llama.cpp then takes the model's. A state is named by how many layers stand before it, as
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import quantize

from distill.drafts.head import DraftHead
from serving.engines.llama_names import IN_LAYER, to_gguf_order
from serving.engines.llamacpp_draft import HEAD_ARCHITECTURE
from serving.registry.durable import sync
from train.checkpoints.gguf_names import num_rotated_heads
from train.checkpoints.gguf_scaling import DIVISORS, scaling_divisors
from train.checkpoints.gguf_shape import shape_metadata
from train.checkpoints.tokenizer_metadata import tokenizer_metadata

MatrixType = Literal["Q8_0", "F16", "F32"]
MATRIX_TYPES: Final[tuple[MatrixType, ...]] = ("Q8_0", "F16", "F32")
GGUF_HEAD_NAME: Final = "head.gguf"


def save_gguf_head(head: DraftHead, path: Path, start: Path, *, matrices: MatrixType = "Q8_0") -> None:
    """Write the head; the file is there whole or not at all.

    Args:
        head: trained.
        path: the file.
        start: the checkpoint of its model, whose tokenizer is the head's.
        matrices: their type; one whose rows are no whole blocks is F16.

    Raises:
        CheckpointError: GGUF knows no such tokenizer.
    """
    part = path.with_name(f".{path.name}")
    writer = GGUFWriter(part, HEAD_ARCHITECTURE)
    try:
        _add_metadata(writer, head, start)
        for name, array in _arrays(head):
            kind = _kind(array, matrices)
            writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
        ids = np.asarray(head.vocabulary.token_ids, dtype=np.int64)
        writer.add_tensor("d2t", ids, raw_dtype=GGMLQuantizationType.I64)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        sync(part)
        part.replace(path)
        sync(path.parent)
    finally:
        writer.close()
        part.unlink(missing_ok=True)


def _add_metadata(writer: Any, head: DraftHead, start: Path) -> None:
    for key, value in shape_metadata(head.shape).items():
        kind = GGUFValueType.UINT32 if isinstance(value, int) else GGUFValueType.FLOAT32
        kind = GGUFValueType.STRING if isinstance(value, str) else kind
        writer.add_key_value(key.replace("llama.", f"{HEAD_ARCHITECTURE}.", 1), value, kind)
    writer.add_array(f"{HEAD_ARCHITECTURE}.target_layers", list(head.fused))
    writer.add_uint32(f"{HEAD_ARCHITECTURE}.target_hidden_size", head.shape.hidden_size)
    writer.add_bool(f"{HEAD_ARCHITECTURE}.norm_before_residual", False)
    for key, (value, types) in tokenizer_metadata(start, head.vocabulary.num_target).items():
        writer.add_key_value(key, value, *types)


def _arrays(head: DraftHead) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Names and weights, in single precision."""
    names = {
        "fc": "fc",
        "output_norm": "norm",
        "output": "lm_head",
        "blk.0.attn_norm_2": "layers.0.hidden_norm",
    }
    names |= {f"blk.0.{theirs}": f"layers.0.{ours}" for theirs, ours in IN_LAYER.items()}
    for theirs, ours in names.items():
        weight = head.get_parameter(f"{ours}.weight").detach().float().cpu().numpy()
        heads = num_rotated_heads(f"{theirs}.weight", head.shape)
        yield f"{theirs}.weight", weight if heads is None else to_gguf_order(weight, heads)
    if (divisors := scaling_divisors(head.shape)) is not None:
        yield DIVISORS, divisors


def _kind(array: npt.NDArray[Any], matrices: MatrixType) -> GGMLQuantizationType:
    kind = GGMLQuantizationType[matrices if array.ndim > 1 else "F32"]
    block, _ = GGML_QUANT_SIZES[kind]
    return GGMLQuantizationType.F16 if array.shape[-1] % block else kind
