"""Format `layers-delta-1`: the difference of a policy's weights to its base's, quantised, in one GGUF file.

- The file is `weights.delta`; its `general.architecture` is the format's name, so that no engine takes it for a model.
- A tensor holds policy − base of the base's tensor of that name, in GGUF's layout: rows of query and key matrices are
  ordered as GGUF orders them. The base is the numbers that its GGUF stands for, dequantised to single precision.
- Matrices are in one of ggml's block types, blocks of 32 along the rows: `Q4_0` takes 18 bytes a block, `Q5_0` 22,
  `Q8_0` 34. Vectors, and matrices whose rows do not divide into blocks, are in single precision.
- Weights that are equal have no tensor. Which base it is stands in the manifest (the recipe's `base_sha256`).

So a file takes at most `18/32 · weights in matrices + 4 · weights in vectors + 256 · tensors + 256` bytes at `Q4_0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize, quantize

from serving.engines.weight_delta import DeltaError, Weights

FORMAT: Final = "layers-delta-1"
FILE_NAME: Final = "weights.delta"
QUANTIZATIONS: Final = ("Q4_0", "Q5_0", "Q8_0")
_BLOCK: Final = 32


class LayersDelta:
    """A file of the format; its tensors are mapped, not read.

    Raises:
        DeltaError: it is damaged, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            reader: Any = GGUFReader(path)
        except FileNotFoundError:
            raise DeltaError(f"no file {path}; publish the policy again") from None
        except (ValueError, IndexError, KeyError, OverflowError) as error:
            raise DeltaError(f"{path} is damaged ({error}); publish the policy again") from None
        field = reader.get_field("general.architecture")
        found = None if field is None else field.contents()
        if found != FORMAT:
            raise DeltaError(
                f"{path} is of format {found!r}, this tierwise reads {FORMAT!r}; upgrade tierwise"
            )
        self._tensors: dict[str, Any] = {tensor.name: tensor for tensor in reader.tensors}

    @property
    def names(self) -> frozenset[str]:
        """The weights that it changes."""
        return frozenset(self._tensors)

    @property
    def kept_layers(self) -> None:
        """All of the base's."""
        return None

    def added_to(self, name: str, weights: Weights) -> Weights:
        """`weights` and the difference.

        Raises:
            DeltaError: their shapes differ.
        """
        tensor = self._tensors[name]
        shape = tuple(int(size) for size in reversed(tensor.shape))
        if shape != weights.shape:
            raise DeltaError(
                f"{self._path}: {name} is {shape}, the base's {weights.shape}; it is another base"
            )
        added: Weights = dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        return weights + added


def write_layers_delta(path: Path, differences: Mapping[str, Weights], *, quantization: str) -> None:
    """Write the file. Not atomic: write into a staging directory.

    Args:
        path: the file.
        differences: policy − base by GGUF's name, rows in GGUF's order.
        quantization: of the matrices, one of `QUANTIZATIONS`.
    """
    writer = GGUFWriter(path, FORMAT)
    try:
        for name, difference in differences.items():
            add_difference(writer, name, difference, quantization)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def add_difference(writer: GGUFWriter, name: str, difference: Weights, quantization: str) -> None:
    """Add a tensor: in blocks where its rows divide into them, in single precision elsewhere."""
    is_blocked = difference.ndim > 1 and difference.shape[-1] % _BLOCK == 0
    kind = GGMLQuantizationType[quantization if is_blocked else "F32"]
    stored = quantize(np.ascontiguousarray(difference, np.float32), kind)
    writer.add_tensor(name, stored, raw_dtype=kind)
