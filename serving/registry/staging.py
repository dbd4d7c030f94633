"""Where artifacts are put together before anyone can see them.

Each writer has a directory `staging/<id>/` and, beside it, a lock file that it holds while it lives. A directory whose
lock nobody holds was left by a writer that died, and may go; no clock and no process id has to be trusted, so this also
holds between containers that share a volume.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from serving.registry.lock import try_lock

_LOCK_SUFFIX = ".lock"


class StagingArea:
    """The directory `root`, in which every change of what exists happens under `guard`."""

    def __init__(
        self, root: Path, *, guard: Callable[[], AbstractContextManager[None]], new_id: Callable[[], str]
    ) -> None:
        self._root = root
        self._guard = guard
        self._new_id = new_id

    @contextmanager
    def open(self) -> Iterator[Path]:
        """A new, empty directory; gone at the end unless it was renamed away.

        What dead writers left is swept first, so that a start after a crash never finds the disk full of its own ruins.
        """
        with self._guard():
            self._remove_abandoned()
            directory, descriptor = self._create()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            _lock_of(directory).unlink(missing_ok=True)
            os.close(descriptor)

    def abandoned(self) -> list[Path]:
        """Directories and locks whose writer is dead. Call it under the guard."""
        if not self._root.is_dir():
            return []
        ids = {path.name.removesuffix(_LOCK_SUFFIX) for path in self._root.iterdir()}
        return [self._root / name for name in sorted(ids) if not _is_held(self._root / name)]

    def sweep(self) -> list[Path]:
        """Remove what dead writers left, and say what it was."""
        with self._guard():
            return self._remove_abandoned()

    def _create(self) -> tuple[Path, int]:
        self._root.mkdir(parents=True, exist_ok=True)
        directory = self._root / self._new_id()
        descriptor = try_lock(_lock_of(directory))
        assert descriptor is not None, "ids are unique, so nobody else can hold a new one's lock"
        directory.mkdir()
        return directory, descriptor

    def _remove_abandoned(self) -> list[Path]:
        abandoned = self.abandoned()
        for directory in abandoned:
            shutil.rmtree(directory, ignore_errors=True)
            _lock_of(directory).unlink(missing_ok=True)
        return abandoned


def _lock_of(directory: Path) -> Path:
    return directory.with_name(directory.name + _LOCK_SUFFIX)


def _is_held(directory: Path) -> bool:
    lock = _lock_of(directory)
    if not lock.exists():
        return False
    descriptor = try_lock(lock)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
