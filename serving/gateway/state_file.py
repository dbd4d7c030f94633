"""What outlives a restart, on the disk: written whole, and read back only where it is what was written."""

from __future__ import annotations

import logging
import threading
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson

from serving.registry.durable import write_atomically

FORMAT: Final = 1

_log = logging.getLogger(__name__)


class StateFile:
    """`<home>/budget.json` or `<home>/evidence.json`.

    Args:
        path: of the file; its directory is made with the first write. The log calls the state by its stem.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fault = ""
        self._writing = threading.Lock()

    def read(self) -> dict[str, Any] | None:
        """What was written last; None where nothing was, or where the file is not as it was written."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("the state of the %s cannot be read and begins anew: %s", self._path.stem, error)
            return None
        try:
            file = orjson.loads(data)
            saved = file["saved"]
            is_whole = file["format"] == FORMAT and file["digest"] == _digest(orjson.dumps(saved))
        except (ValueError, TypeError, KeyError):
            is_whole = False
        if not is_whole:
            _log.warning("%s is damaged or of another version; what it holds begins anew", self._path)
            return None
        assert isinstance(saved, dict), "only dictionaries are written"
        return saved

    def write(self, saved: dict[str, Any]) -> None:
        """Replace the file, from any thread. Where that fails the log says so, once for each kind of failure."""
        body = orjson.dumps(saved)
        data = b'{"format":%d,"digest":"%b","saved":%b}\n' % (FORMAT, _digest(body).encode(), body)
        try:
            with self._writing:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomically(self._path, data)
        except OSError as error:
            if str(error) != self._fault:
                _log.error("the state of the %s is not saved: %s", self._path.stem, error)
            self._fault = str(error)
        else:
            self._fault = ""


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()
