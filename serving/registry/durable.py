"""Writes that survive a power cut: data reaches the disk before the name does."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`; a reader or a crash sees the old bytes or the new ones, never a part.

    The caller holds the lock that keeps other writers of `path` away.
    """
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's data, or a directory's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """`sync` every file and directory below `directory`, and itself."""
    for parent, _, names in os.walk(directory):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))
