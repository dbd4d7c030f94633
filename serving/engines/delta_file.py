"""The GGUF file that holds a difference: which format it is of, and its tensors, quantised where their rows allow.

`layers_delta` and `student_delta` say what the tensors of their formats mean; here they are read and written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize, quantize

from serving.engines.weight_delta import DeltaError, Weights

QUANTIZATIONS: Final = ("Q4_0", "Q5_0", "Q8_0")
_FORMAT: Final = "general.architecture"
_BLOCK: Final = 32


class DeltaFile:
    """A file of one format; its tensors are mapped, not read.

    Args:
        path: the file.
        kind: the format's name, which it has to bear.

    Raises:
        DeltaError: it is absent or damaged, or of another format.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        try:
            self._reader: Any = GGUFReader(path)
        except FileNotFoundError:
            raise DeltaError(f"no file {path}; publish it again") from None
        except (ValueError, IndexError, KeyError, OverflowError) as error:
            raise DeltaError(f"{path} is damaged ({error}); publish it again") from None
        found = self.member(_FORMAT)
        if found != kind:
            raise DeltaError(f"{path} is of format {found!r}, this tierwise reads {kind!r}; upgrade tierwise")
        self._tensors: dict[str, Any] = {tensor.name: tensor for tensor in self._reader.tensors}

    @property
    def tensor_names(self) -> frozenset[str]:
        """Of all its tensors."""
        return frozenset(self._tensors)

    def member(self, name: str) -> Any:
        """What its header says under a name; None where it says nothing."""
        field = self._reader.get_field(name)
        return None if field is None else field.contents()

    def read(self, name: str) -> Weights:
        """A tensor in single precision."""
        tensor = self._tensors[name]
        values: Weights = dequantize(tensor.data, tensor.tensor_type)
        return values.reshape(tuple(int(size) for size in reversed(tensor.shape)))

    def sum_of(self, name: str, weights: Weights, difference: Weights) -> Weights:
        """The base's `weights` of that name and the difference.

        Raises:
            DeltaError: their shapes differ.
        """
        if difference.shape != weights.shape:
            raise DeltaError(
                f"{self._path}: {name} is {difference.shape}, the base's {weights.shape}; it is another base"
            )
        return weights + difference


@contextmanager
def written(path: Path, kind: str) -> Iterator[GGUFWriter]:
    """A writer whose members and tensors are the file once it is left. Not atomic: write into a staging directory."""
    writer = GGUFWriter(path, kind)
    try:
        yield writer
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
