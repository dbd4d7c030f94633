"""The weights on the disk: how large, and which."""

from __future__ import annotations

import hashlib
from pathlib import Path


def weights_bytes(path: Path) -> int:
    """Of a GGUF file, or of all safetensors of a directory; 0 where nothing is there."""
    return sum(each.stat().st_size for each in _files(path))


def weights_sha256(path: Path) -> str | None:
    """Of the file; of several one after the other, by name. None where nothing is there."""
    files = _files(path)
    if not files:
        return None
    digest = hashlib.sha256()
    for each in files:
        with each.open("rb") as opened:
            while piece := opened.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("*.safetensors"))
