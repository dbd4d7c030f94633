"""The hash that weights are known by: of their one file, or of several files' hashes by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from serving.registry.manifest import digest
from train.checkpoints.directory import weight_files


def hash_of_path(path: Path) -> str:
    """Of a GGUF file, or of a checkpoint's directory; where it lies and what is beside it does not count.

    Raises:
        CheckpointError: the directory has no weights.
    """
    files = [path] if path.is_file() else weight_files(path)
    return hash_of_files({file.name: _sha256(file) for file in files})


def hash_of_files(hashes: Mapping[str, str]) -> str:
    """Of weights in files with these hashes."""
    return next(iter(hashes.values())) if len(hashes) == 1 else digest(dict(hashes))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
