"""What was measured already, a JSON file a measurement, named by the hash of what was measured.

A run that was stopped finds what it had; one with another model, other items or another load finds nothing of those
and measures them, so that no figure is ever shown for something else. Files are whole or absent (`registry.durable`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.registry.durable import write_atomically
from serving.registry.manifest import digest
from train.run_directory import RunError

Key = Mapping[str, Any]
"""What is measured, as JSON: everything on which the figures depend."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The measurements in a directory, which is made with the first."""

    directory: Path

    def find(self, key: Key) -> Any | None:
        """What was found of it; None where it was not measured.

        Raises:
            RunError: the file is damaged.
        """
        path = self._path(key)
        if not path.exists():
            return None
        try:
            return json.loads(path.read_bytes())["found"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise RunError(
                f"{path} is no measurement ({error!r}); delete it, and it is measured again"
            ) from None

    def keep(self, key: Key, found: Any) -> None:
        """Write what was found, beside what it is of."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"of": dict(key), "found": found}, indent=1) + "\n"
        write_atomically(self._path(key), text.encode())

    def _path(self, key: Key) -> Path:
        return self.directory / f"{key['kind']}-{digest(dict(key))[:20]}.json"
