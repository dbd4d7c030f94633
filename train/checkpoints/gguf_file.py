"""A GGUF file opened for reading: values by key, tensors by name, dequantised when asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, dequantize

from train.checkpoints.directory import CheckpointError


class GgufFile:
    """A file whose tensors are mapped, not read.

    Raises:
        CheckpointError: there is no such file, or it is no whole GGUF file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader: Any = GGUFReader(path)
        except OSError as error:
            raise CheckpointError(f"cannot read {path} ({error.strerror}); correct the path") from None
        except (ValueError, IndexError, KeyError, OverflowError) as error:
            raise CheckpointError(f"{path} is not a whole GGUF file ({error}); take a fresh copy") from None
        self.tensors: dict[str, Any] = {tensor.name: tensor for tensor in self._reader.tensors}

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or the default where the file has none."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def need(self, key: str) -> Any:
        """A value.

        Raises:
            CheckpointError: the file has none.
        """
        value = self.get(key)
        if value is None:
            raise CheckpointError(f"{self.path} has no {key}; take a GGUF that holds a whole model")
        return value

    def typed(self, prefix: str) -> dict[str, tuple[Any, tuple[GGUFValueType, ...]]]:
        """Values and their types, of all keys that begin so."""
        return {
            key: (field.contents(), tuple(field.types))
            for key, field in self._reader.fields.items()
            if key.startswith(prefix)
        }

    def weight(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor in single precision, rows first.

        Raises:
            CheckpointError: it is missing, or quantised in a way that the gguf library cannot read.
        """
        if name not in self.tensors:
            raise CheckpointError(f"{self.path} has no tensor {name}; take a GGUF that holds a whole model")
        tensor = self.tensors[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise CheckpointError(
                f"{self.path}: {name}: {error}; take the model in another quantisation"
            ) from None
        shape = tuple(int(size) for size in reversed(tensor.shape))
        return np.ascontiguousarray(values, dtype=np.float32).reshape(shape)

    def quantization(self) -> str:
        """The type that most weights are in, as `Q4_1`."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors.values():
            name = GGMLQuantizationType(tensor.tensor_type).name
            sizes[name] = sizes.get(name, 0) + int(tensor.n_elements)
        return max(sizes, key=lambda name: sizes[name])
