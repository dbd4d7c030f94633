"""Who changed what, and when: a file that is only ever appended to, one JSON line a change."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from serving.registry.durable import sync


class AuditLog:
    """`<home>/audit.jsonl`, made with the first change, for the owner alone.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add a line; on the disk when this returns. Blocks, and may be called from any thread.

        Raises:
            OSError: it could not be written, so that the change must not be made.
        """
        line = orjson.dumps(entry) + b"\n"
        with self._writing:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not self._path.exists()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as out:
                out.write(line)  # in one write, so that the lines of two processes do not mix
                os.fsync(out.fileno())
            if is_new:
                sync(self._path.parent)
