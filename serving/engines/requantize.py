"""Writes a GGUF model in another quantisation, with numpy and the `gguf` library alone.

Matrices are dequantised and quantised again, rounding to nearest as ggml's reference does. Embedding and output matrix
stay at Q8_0, because a small model loses most there; vectors, and matrices whose rows do not divide into blocks, stay
as they are. A matrix whose rows divide into blocks of 32 and not into Q4_K's of 256 becomes Q5_0, as llama.cpp's own
quantiser has it (`llama-quant.cpp`); a model that would be Q4_K in no matrix at all is refused. Where a policy is made,
its difference (`weight_delta`) is added in between. Metadata stays too, except for the two keys that name the
quantisation and, where they are given, the chat template and the layers that stay: others are left out, and those
behind them renumbered. No tensor is added: an output matrix tied to the embedding stays tied.

Opening a model parses its whole vocabulary, which takes longer than quantising a small one: open it once.

One tensor is in memory at a time. The file is not atomic: write into a staging directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import (
    GGML_QUANT_SIZES,
    GGML_QUANT_VERSION,
    GGMLQuantizationType,
    GGUFReader,
    GGUFValueType,
    GGUFWriter,
    LlamaFileType,
    dequantize,
    quantize,
)
from gguf.quants import quant_shape_to_byte_shape

from serving.engines.base import EngineError
from serving.engines.llama_names import renumbered
from serving.engines.q4_k import quantize_q4_k
from serving.engines.weight_delta import DeltaError, WeightDelta

CHAT_TEMPLATE_KEY = "tokenizer.chat_template"
FILE_TYPES = {
    "Q4_0": LlamaFileType.MOSTLY_Q4_0,
    "Q4_1": LlamaFileType.MOSTLY_Q4_1,
    "Q4_K": LlamaFileType.MOSTLY_Q4_K_S,
    "Q5_0": LlamaFileType.MOSTLY_Q5_0,
    "Q5_1": LlamaFileType.MOSTLY_Q5_1,
    "Q8_0": LlamaFileType.MOSTLY_Q8_0,
}
"""Quantisation → `general.file_type`: the block formats that the gguf library can write, and Q4_K."""
KEPT_AT_Q8_0 = frozenset({"token_embd.weight", "output.weight"})

_BLOCK = 32  # weights in a block, for all of FILE_TYPES but Q4_K
_WHERE_ROWS_DO_NOT_DIVIDE = {GGMLQuantizationType.Q4_K: GGMLQuantizationType.Q5_0}
_NOT_FLOAT = {"I8", "I16", "I32", "I64", "F64"}


class RequantizeError(EngineError):
    """The source is not a model that can be quantised again."""


@dataclass(frozen=True, slots=True)
class SourceModel:
    """A GGUF file, opened by `open_model`; its tensors are mapped, not read."""

    path: Path
    reader: Any
    """`gguf.GGUFReader`, which has no types of its own here."""


def open_model(path: Path) -> SourceModel:
    """Open a GGUF file.

    Raises:
        RequantizeError: it is no GGUF file, or is cut.
    """
    try:
        return SourceModel(path, GGUFReader(path))
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise RequantizeError(
            f"{path} is not a whole GGUF file ({error}); take a fresh copy of it"
        ) from error


def requantize(
    source: SourceModel,
    target: Path,
    *,
    quantization: str,
    chat_template: str | None = None,
    delta: WeightDelta | None = None,
    on_tensor: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write `source` to `target` in `quantization`, one of `FILE_TYPES`.

    Args:
        source: quantised or not.
        target: the file to write.
        quantization: for example `Q4_0`.
        chat_template: replaces the source's, where given.
        delta: what is added to the source's weights.
        on_tensor: called with (tensors done, tensors in all) after each.

    Raises:
        RequantizeError: `source` holds what the gguf library cannot convert, or nothing that could become Q4_K.
        DeltaError: `delta` is of another base.
        OSError: the disk refuses.
    """
    wanted = GGMLQuantizationType[quantization]
    tensors = _staying(source, delta)
    other = _WHERE_ROWS_DO_NOT_DIVIDE.get(wanted)
    if other is not None and wanted not in {_kind(tensor, wanted) for tensor in tensors.values()}:
        size, _ = GGML_QUANT_SIZES[wanted]
        raise RequantizeError(
            f"{source.path}: no matrix has rows of {size} or a multiple of it, so that all would be {other.name} under "
            f"another name; ask for {other.name}"
        )
    writer = GGUFWriter(target, _architecture(source))
    writer.data_alignment = int(source.reader.alignment)
    try:
        _copy_metadata(source, writer, quantization=quantization, chat_template=chat_template, delta=delta)
        for name, tensor in tensors.items():
            kind = _kind(tensor, wanted)
            shape = tuple(int(size) for size in reversed(tensor.shape))
            num_bytes = int(np.prod(quant_shape_to_byte_shape(shape, kind)))
            writer.add_tensor_info(name, shape, np.dtype(np.float32), num_bytes, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for index, tensor in enumerate(tensors.values(), start=1):
            _append(writer, _converted(tensor, wanted, source, delta))
            on_tensor(index, len(tensors))
    finally:
        writer.close()


def tokenizer_sha256(source: SourceModel) -> str:
    """The hash of a model's tokenizer: its kind, tokens, merges and special ids, without the chat template."""
    hasher = hashlib.sha256()
    for key, field in sorted(source.reader.fields.items()):
        if key.startswith("tokenizer.") and not key.startswith(CHAT_TEMPLATE_KEY):
            hasher.update(key.encode() + b"\0")
            for part in field.parts:
                hasher.update(part.tobytes())
    return hasher.hexdigest()


def _architecture(source: SourceModel) -> str:
    field = source.reader.get_field("general.architecture")
    if field is None:
        raise RequantizeError(
            f"{source.path} names no general.architecture; take a GGUF file that holds a model"
        )
    return str(field.contents())


def _staying(source: SourceModel, delta: WeightDelta | None) -> dict[str, Any]:
    """Tensors by the names that they are written under."""
    tensors = source.reader.tensors
    kept = None if delta is None else delta.kept_layers
    if kept is not None and kept[-1] >= (num_layers := _num_layers(source)):
        raise DeltaError(
            f"{source.path} has {num_layers} layers, and layer {kept[-1]} is kept; it is another base"
        )
    names = {
        tensor.name: tensor.name if kept is None else renumbered(tensor.name, kept) for tensor in tensors
    }
    changed = frozenset() if delta is None else delta.names
    if lacking := sorted(name for name in changed if names.get(name) is None):
        raise DeltaError(f"{source.path} has no {lacking[0]}, which the policy changes; it is another base")
    return {name: tensor for tensor in tensors if (name := names[tensor.name]) is not None}


def _num_layers_key(source: SourceModel) -> str:
    return f"{_architecture(source)}.block_count"


def _num_layers(source: SourceModel) -> int:
    field = source.reader.get_field(_num_layers_key(source))
    if field is None:
        raise RequantizeError(
            f"{source.path} does not say how many layers it has; take a GGUF file of a model"
        )
    return int(field.contents())


def _copy_metadata(
    source: SourceModel,
    writer: Any,
    *,
    quantization: str,
    chat_template: str | None,
    delta: WeightDelta | None,
) -> None:
    replaced: dict[str, tuple[Any, GGUFValueType]] = {
        "general.file_type": (int(FILE_TYPES[quantization]), GGUFValueType.UINT32),
        "general.quantization_version": (GGML_QUANT_VERSION, GGUFValueType.UINT32),
    }
    if chat_template is not None:
        replaced[CHAT_TEMPLATE_KEY] = (chat_template, GGUFValueType.STRING)
    if delta is not None and delta.kept_layers is not None:
        replaced[_num_layers_key(source)] = (len(delta.kept_layers), GGUFValueType.UINT32)
    for key, field in source.reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue  # the writer's own
        if key in replaced:
            writer.add_key_value(key, *replaced.pop(key))
        else:
            kind, *inner = field.types
            # The library flattens arrays of arrays and forgets the type of empty ones.
            if kind == GGUFValueType.ARRAY and (len(inner) != 1 or inner[0] == GGUFValueType.ARRAY):
                raise RequantizeError(
                    f"{source.path}: {key} is a nested or empty array, which gguf cannot rewrite"
                )
            writer.add_key_value(key, field.contents(), kind, *inner)
    for key, value in replaced.items():
        writer.add_key_value(key, *value)


def _kind(tensor: Any, wanted: GGMLQuantizationType) -> GGMLQuantizationType:
    """The type in which a tensor is written."""
    if len(tensor.shape) < 2 or tensor.shape[0] % _BLOCK or tensor.tensor_type.name in _NOT_FLOAT:
        return tensor.tensor_type
    kind = GGMLQuantizationType.Q8_0 if tensor.name in KEPT_AT_Q8_0 else wanted
    size, _ = GGML_QUANT_SIZES[kind]
    return _WHERE_ROWS_DO_NOT_DIVIDE[kind] if tensor.shape[0] % size else kind


def _converted(
    tensor: Any, wanted: GGMLQuantizationType, source: SourceModel, delta: WeightDelta | None
) -> npt.NDArray[Any]:
    kind = _kind(tensor, wanted)
    is_changed = delta is not None and tensor.name in delta.names
    if kind == tensor.tensor_type and not is_changed:
        return np.asarray(tensor.data)
    try:
        weights = dequantize(tensor.data, tensor.tensor_type)
        if delta is not None and is_changed:
            weights = delta.added_to(tensor.name, weights)
        return (
            quantize_q4_k(weights)
            if kind == GGMLQuantizationType.Q4_K
            else np.asarray(quantize(weights, kind))
        )
    except NotImplementedError as error:
        remedy = "take the model in another quantisation"
        raise RequantizeError(f"{source.path}: {tensor.name}: {error}; {remedy}") from error


def _append(writer: Any, data: npt.NDArray[Any]) -> None:
    # Not numpy's tofile, which says "n requested and m written" where the disk is full and drops the reason.
    (out,) = writer.fout
    writer.write_padding(out, out.tell())
    out.write(np.ascontiguousarray(data).data)
    writer.write_padding(out, data.nbytes)
