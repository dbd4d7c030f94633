"""The files of several types, each written as its engine reads it, and read back as what it stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from torch import Tensor

from distill.quantization import compressed_tensors, gguf_files
from distill.quantization.report import WHOLE
from distill.quantization.types import GgufType, QuantizedType
from serving.engines.requantize import SourceModel, open_model
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.llama import Llama
from train.model.weights import state_of


class Files:
    """A model's, in a directory of their own.

    Args:
        name: files are called after it.
        model: adapters merged.
        start: the checkpoint that it was loaded from.
        directory: exists, and is empty.
        group_size, importance: as `compressed_tensors.write`.
    """

    def __init__(
        self,
        name: str,
        model: Llama,
        start: Path,
        directory: Path,
        *,
        group_size: int | None = None,
        importance: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        self._name = name
        self._model = model
        self._start = start
        self._directory = directory
        self._group_size = group_size
        self._importance = importance
        self._source: SourceModel | None = None
        self._written: list[Path] = []

    def path(self, kind: QuantizedType) -> Path:
        """A file, or a directory."""
        return self._directory / kind.file_name(self._name)

    def paths(self) -> tuple[Path, ...]:
        """All that is written."""
        return tuple(self._written)

    def wholes(self) -> tuple[Path, ...]:
        """The model itself, for each engine that something is written for: in single precision, and its checkpoint."""
        files = (self._source.path,) if self._source else ()
        return (*files, self._start) if any(path.is_dir() for path in self._written) else files

    def write(self, kind: QuantizedType) -> None:
        """Write a type.

        Raises:
            GroupSizeError, RequantizeError: rows do not divide as it needs them.
            CheckpointError: the checkpoint is not whole.
        """
        path = self.path(kind)
        if isinstance(kind, GgufType):
            gguf_files.write(self._opened(), path, kind)
        else:
            compressed_tensors.write(
                state_of(self._model),
                self._start,
                path,
                kind,
                group_size=self._group_size,
                importance=self._importance,
            )
        self._written.append(path)

    def weights(self, kind: QuantizedType) -> dict[str, Tensor]:
        """What a written type stands for, in single precision, as a checkpoint names it."""
        if isinstance(kind, GgufType):
            return gguf_files.read(self.path(kind), self._model.shape)
        return compressed_tensors.read(self.path(kind))

    def num_weights(self, kind: QuantizedType) -> dict[str, int]:
        """Format → weights in it."""
        if isinstance(kind, GgufType):
            return gguf_files.num_weights(self.path(kind))
        found: Counter[str] = Counter()
        for name, weight in state_of(self._model).items():
            plain = str(compressed_tensors.PLAIN_TYPE)[6:]
            found[f"int{kind.num_bits}" if compressed_tensors.is_quantized(name) else plain] += weight.numel()
        return dict(found.most_common())

    def _opened(self) -> SourceModel:
        if self._source is None:
            path = self._directory / f"{WHOLE}.gguf"
            convert_to_gguf(self._start, path)
            self._source = open_model(path)
        return self._source


def size_bytes(path: Path) -> int:
    """Of a file, or of all files of a directory."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)
