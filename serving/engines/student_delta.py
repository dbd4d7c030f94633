"""Format `student-delta-1`: a student as layers of its base, and what was added to their weights, in one GGUF file.

- The file is `student.delta`; its `general.architecture` is the format's name, so that no engine takes it for a model.
- `student.kept_layers` has the indices of the base's layers that the student consists of, rising; the student's layer
  i is the base's layer kept[i]. Tensors are named by the base's layer.
- A tensor `W` holds student − base as in `layers_delta`: matrices in blocks of 32, vectors in single precision.
- Tensors `W.lora_a` (rank, in) and `W.lora_b` (out, rank), in half precision, stand for the difference B A
  (arXiv:2106.09685, the scale multiplied in); rows of B are in GGUF's order. A weight has one kind or the other.
- Weights that are the base's have no tensor.

Of a matrix of out × in weights the first kind takes 18/32 · out · in bytes at `Q4_0`, the second 2 · rank · (out + in).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from serving.engines.delta_file import QUANTIZATIONS, DeltaFile, add_difference, written
from serving.engines.weight_delta import DeltaError, Weights

FORMAT: Final = "student-delta-1"
FILE_NAME: Final = "student.delta"
_KEPT_LAYERS: Final = "student.kept_layers"
_FIRST, _SECOND = ".lora_a", ".lora_b"


@dataclass(frozen=True, slots=True)
class LowRank:
    """A difference as a product: `second` (out, rank) times `first` (rank, in)."""

    first: Weights
    second: Weights


class StudentDelta:
    """A file of the format.

    Raises:
        DeltaError: as `DeltaFile`; or its layers do not rise, or half a product is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = DeltaFile(path, FORMAT)
        self._stored = self._file.tensor_names
        kept = self._file.member(_KEPT_LAYERS)
        self._kept: tuple[int, ...] = tuple(kept or ())
        if not self._kept or list(self._kept) != sorted(set(self._kept)) or self._kept[0] < 0:
            raise DeltaError(f"{path} keeps layers {kept}, which do not rise; publish it again")
        firsts, seconds = (
            {name.removesuffix(end) for name in self._stored if name.endswith(end)}
            for end in (_FIRST, _SECOND)
        )
        if lame := sorted(firsts ^ seconds):
            raise DeltaError(f"{path} holds half a product for {lame[0]}; publish it again")

    @property
    def names(self) -> frozenset[str]:
        """The weights that it changes, as the base's GGUF names them."""
        return frozenset(name.removesuffix(_FIRST).removesuffix(_SECOND) for name in self._stored)

    @property
    def kept_layers(self) -> tuple[int, ...]:
        """The base's layers that the student consists of."""
        return self._kept

    def added_to(self, name: str, weights: Weights) -> Weights:
        """`weights` and the difference.

        Raises:
            DeltaError: their shapes differ.
        """
        difference = self._file.read(name) if name in self._stored else self._product(name)
        return self._file.sum_of(name, weights, difference)

    def _product(self, name: str) -> Weights:
        first, second = self._file.read(name + _FIRST), self._file.read(name + _SECOND)
        if first.ndim != 2 or second.ndim != 2 or len(first) != second.shape[1]:
            raise DeltaError(f"{self._path}: the product for {name} has two ranks; publish it again")
        product: Weights = second @ first
        return product


def write_student_delta(
    path: Path,
    kept_layers: Sequence[int],
    differences: Mapping[str, Weights | LowRank],
    *,
    quantization: str,
) -> None:
    """Write the file. Not atomic: write into a staging directory.

    Args:
        path: the file.
        kept_layers: of the base, rising.
        differences: student − base by GGUF's name of the base's weight, rows in GGUF's order.
        quantization: of the matrices that are no products, one of `delta_file.QUANTIZATIONS`.
    """
    if quantization not in QUANTIZATIONS:
        raise ValueError(f"{quantization!r} is none of {', '.join(QUANTIZATIONS)}")
    with written(path, FORMAT) as writer:
        writer.add_array(_KEPT_LAYERS, list(kept_layers))
        for name, difference in differences.items():
            if isinstance(difference, LowRank):
                for end, half in ((_FIRST, difference.first), (_SECOND, difference.second)):
                    writer.add_tensor(name + end, np.ascontiguousarray(half, np.float16))
            else:
                add_difference(writer, name, difference, quantization)
