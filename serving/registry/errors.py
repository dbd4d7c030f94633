"""What can go wrong in a registry. Every message is one line and names the remedy."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class RegistryError(Exception):
    """Base of everything this room raises on purpose."""


class InvalidReferenceError(RegistryError):
    """A reference or a name is not written as one."""


class UnknownReferenceError(RegistryError):
    """A reference names nothing that the registry holds."""


class InvalidManifestError(RegistryError):
    """What a publisher says about an artifact breaks the manifest's rules."""


class UnsafeFileError(RegistryError):
    """A file that an artifact may not hold: a symlink, a device, a path that leads outside."""


class ConflictError(RegistryError):
    """Another content stands under that version, or an alias has no earlier target."""


class CorruptArtifactError(RegistryError):
    """Files on disk are not those that were published."""


class BusyError(RegistryError):
    """Another process holds the registry's lock."""


class StorageError(RegistryError):
    """The operating system refused to read or write."""


@contextmanager
def storage_errors(place: Path) -> Iterator[None]:
    """Turn whatever the operating system refuses below `place` into a `StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(explain_os_error(error, place)) from error


def explain_os_error(error: OSError, place: Path) -> str:
    """One line: what was refused, where, and what to do."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"no space left in {place} ({_free(place)}); free some, or set `home` to a directory on a larger disk"
    where = error.filename or place
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"may not write {where} ({error.strerror}); set `home` to a directory that you own"
    return (
        f"cannot use {where}: {error.strerror or error}; look at the disk, or set `home` to another directory"
    )


def nearest(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """A remedy: the known name most like `name`, or `otherwise` where none is."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else otherwise


def _free(place: Path) -> str:
    while not place.exists():
        place = place.parent
    return f"{shutil.disk_usage(place).free / 1e6:.0f} MB free"
