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
from typing import Final

from serving.engines.delta_file import DeltaFile, add_difference, written
from serving.engines.weight_delta import Weights

FORMAT: Final = "layers-delta-1"
FILE_NAME: Final = "weights.delta"


class LayersDelta:
    """A file of the format.

    Raises:
        DeltaError: as `DeltaFile`.
    """

    def __init__(self, path: Path) -> None:
        self._file = DeltaFile(path, FORMAT)

    @property
    def names(self) -> frozenset[str]:
        """The weights that it changes."""
        return self._file.tensor_names

    @property
    def kept_layers(self) -> None:
        """All of the base's."""
        return None

    def added_to(self, name: str, weights: Weights) -> Weights:
        """`weights` and the difference.

        Raises:
            DeltaError: their shapes differ.
        """
        return self._file.sum_of(name, weights, self._file.read(name))


def write_layers_delta(path: Path, differences: Mapping[str, Weights], *, quantization: str) -> None:
    """Write the file. Not atomic: write into a staging directory.

    Args:
        path: the file.
        differences: policy − base by GGUF's name, rows in GGUF's order.
        quantization: of the matrices, one of `delta_file.QUANTIZATIONS`.
    """
    with written(path, FORMAT) as writer:
        for name, difference in differences.items():
            add_difference(writer, name, difference, quantization)
