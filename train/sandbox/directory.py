"""The directory of a run: locked for as long as its owner lives, and removed at the next start where he was killed.

The lock is the kernel's (flock, on the directory itself), so it goes when its owner goes, however that came about.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "tierwise-jail-"

_log = logging.getLogger(__name__)


@contextmanager
def claimed(base: Path) -> Iterator[Path]:
    """A fresh directory in `base` that nobody else removes; it is gone afterwards."""
    root, lock = _claim(base)
    try:
        yield root
    finally:
        try:
            remove(root)
        finally:
            os.close(lock)


def remove(root: Path) -> None:
    """Remove a directory whatever code made of it: unreadable, or nested deeper than Python recurses."""
    subprocess.run(["/bin/rm", "-rf", "--", root], check=False, capture_output=True)  # noqa: S603
    if root.exists():
        subprocess.run(["/bin/chmod", "-R", "u+rwX", "--", root], check=False, capture_output=True)  # noqa: S603
        shutil.rmtree(root)


def remove_leftovers(base: Path, owners: Container[int]) -> list[Path]:
    """Remove the directories in `base` whose makers are gone; which they were.

    Args:
        base: where `claimed` makes them.
        owners: users whose directories are looked at; in /tmp a stranger may make some of the same name.
    """
    return [root for root in sorted(base.glob(f"{PREFIX}*")) if _is_removed(root, owners)]


def _claim(base: Path) -> tuple[Path, int]:
    while True:
        root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.exists():
            return root, lock
        os.close(lock)  # somebody found it between its making and its lock, and removed it as a dead one's


def _is_removed(root: Path, owners: Container[int]) -> bool:
    try:
        found = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone meanwhile, no directory, or closed to us
        return False
    try:
        if os.fstat(found).st_uid not in owners:
            return False
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(root)
    except BlockingIOError:  # its owner lives
        return False
    except OSError as error:
        _log.warning("%s was left by a sandbox whose owner is gone, and cannot be removed: %s", root, error)
        return False
    finally:
        os.close(found)
    return True
