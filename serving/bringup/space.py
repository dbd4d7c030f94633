"""Whether the disk is large enough, asked before anything is written."""

from __future__ import annotations

import shutil
from pathlib import Path

from serving.bringup.errors import NoSpaceError

_MARGIN_BYTES = 32 * 10**6


def require_space(place: Path, needed_bytes: int) -> None:
    """Return if the file system of `place`, which need not exist yet, has so much free and a margin.

    Raises:
        NoSpaceError: it has not; the message says how much is needed where.
    """
    existing = next(parent for parent in (place.absolute(), *place.absolute().parents) if parent.exists())
    needed, free = needed_bytes + _MARGIN_BYTES, shutil.disk_usage(existing).free
    if free < needed:
        raise NoSpaceError(
            f"{needed / 1e6:.0f} MB are needed in {place}, {free / 1e6:.0f} MB are free; "
            "free some, or put tierwise on a larger disk with --home DIR"
        )
