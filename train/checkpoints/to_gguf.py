"""A directory of safetensors → GGUF, for llama.cpp. Smaller types are made from it by `serving.engines.requantize`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, LlamaFileType

from serving.engines.llama_names import to_gguf_order
from train.checkpoints.directory import CheckpointError, read_config, read_tensors
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_names import num_rotated_heads, tensor_names
from train.checkpoints.gguf_scaling import DIVISORS, scaling_divisors
from train.checkpoints.gguf_shape import shape_metadata
from train.checkpoints.tokenizer_metadata import Typed, tokenizer_metadata
from train.model.shape import LlamaShape

FloatType = Literal["F32", "F16"]
_FILE_TYPES = {"F32": LlamaFileType.ALL_F32, "F16": LlamaFileType.MOSTLY_F16}
_DTYPES = {"F32": np.float32, "F16": np.float16}


def convert_to_gguf(
    directory: Path, target: Path, *, float_type: FloatType = "F32", like: Path | None = None
) -> None:
    """Write a checkpoint as one GGUF file. Not atomic: write into a staging directory.

    Args:
        directory: config.json, safetensors and, without `like`, the tokenizer's files.
        target: the file.
        float_type: of the matrices; vectors are single precision.
        like: a GGUF of the same family, whose general and tokenizer metadata are copied.

    Raises:
        CheckpointError: something is missing, or does not fit.
        UnsupportedModelError: another family.
    """
    shape = LlamaShape.from_config(read_config(directory))
    weights = read_tensors(directory)
    writer = GGUFWriter(target, "llama")
    try:
        _add_metadata(writer, directory, shape, float_type, like)
        for theirs, ours in tensor_names(shape).items():
            if ours not in weights:
                raise CheckpointError(f"{directory} has no weight {ours}; take a fresh copy")
            weight = weights[ours].float().numpy()
            heads = num_rotated_heads(theirs, shape)
            ordered = weight if heads is None else to_gguf_order(weight, heads)
            is_matrix = ordered.ndim > 1
            kind = float_type if is_matrix else "F32"
            writer.add_tensor(theirs, ordered.astype(_DTYPES[kind]), raw_dtype=GGMLQuantizationType[kind])
        if (divisors := scaling_divisors(shape)) is not None:
            writer.add_tensor(DIVISORS, divisors, raw_dtype=GGMLQuantizationType.F32)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_metadata(
    writer: Any, directory: Path, shape: LlamaShape, float_type: FloatType, like: Path | None
) -> None:
    for key, value in shape_metadata(shape).items():
        kind = GGUFValueType.UINT32 if isinstance(value, int) else GGUFValueType.FLOAT32
        kind = GGUFValueType.STRING if isinstance(value, str) else kind
        writer.add_key_value(key, value, kind)
    for key, (value, types) in _described(directory, shape, like).items():
        writer.add_key_value(key, value, *types)
    writer.add_file_type(int(_FILE_TYPES[float_type]))


def _described(directory: Path, shape: LlamaShape, like: Path | None) -> Typed:
    if like is None:
        return tokenizer_metadata(directory, shape.vocab_size)
    file = GgufFile(like)
    if len(file.need("tokenizer.ggml.tokens")) != shape.vocab_size:
        raise CheckpointError(
            f"{like} has {len(file.need('tokenizer.ggml.tokens'))} tokens, the model {shape.vocab_size}; name a GGUF "
            "of the same family"
        )
    own = {"general.architecture", "general.file_type", "general.quantization_version"}
    found: Typed = {key: typed for key, typed in file.typed("general.").items() if key not in own}
    return found | file.typed("tokenizer.")
