"""How files become an artifact: taken into staging, measured, made durable, renamed into place."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from serving.registry.artifact import measure, read_artifact, regular_files
from serving.registry.durable import sync, sync_tree
from serving.registry.errors import ConflictError, InvalidManifestError, UnsafeFileError
from serving.registry.manifest import MANIFEST_NAME, Description, FileEntry, Manifest, content_digest, digest

Transfer = Literal["copy", "move"]
_VERSION_DIGITS = 12


def take(source: Path, staged: Path, transfer: Transfer) -> list[Path]:
    """Bring a file, or all files below a directory, into `staged`; the source's files.

    `move` links where the file system allows, so that a failure later costs the caller nothing: the caller removes the
    sources once the artifact is published.
    """
    if source.is_dir() and not source.is_symlink():
        found = list(regular_files(source))
    elif source.is_file() and not source.is_symlink():
        found = [(source.name, source)]
    else:
        raise UnsafeFileError(f"{source} is neither a file nor a directory; name what is to be published")
    for path, file in found:
        target = staged / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if transfer == "copy" or not _link(file, target):
            shutil.copyfile(file, target)
    return [file for _, file in found]


def prepare(staged: Path, description: Description, *, version: str | None, created_at: datetime) -> Manifest:
    """Measure what lies in `staged`, write the manifest beside it, and wait until all of it is on the disk.

    Raises:
        InvalidManifestError: no files, or a version or path that the manifest's rules forbid.
        UnsafeFileError: something that is not a regular file.
    """
    try:
        files = tuple(_seal(staged, path, file) for path, file in regular_files(staged))
        content_sha256 = content_digest(description, files)
        manifest = Manifest(
            **dict(description),
            version=version or content_sha256[:_VERSION_DIGITS],
            created_at=created_at,
            recipe_sha256=digest(description.recipe),
            content_sha256=content_sha256,
            files=files,
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise InvalidManifestError(f"{description.name}: {where}: {fault['msg']}") from None
    written = staged / MANIFEST_NAME
    written.write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    written.chmod(0o444)
    sync_tree(staged)
    return manifest


def settle(staged: Path, target: Path, manifest: Manifest) -> None:
    """Rename `staged` to `target`, or leave it where the same content stands there. Call it under the lock.

    Raises:
        ConflictError: other content stands there.
    """
    if target.exists():
        refuse_other_content(read_artifact(target, manifest.reference).manifest, manifest)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(target)
    for directory in (target.parent, target.parent.parent, staged.parent):
        sync(directory)


def refuse_other_content(existing: Manifest, manifest: Manifest) -> None:
    """Raise a `ConflictError` where the two, of one version, are not the same content."""
    if existing.content_sha256 == manifest.content_sha256:
        return
    compared = [*Description.model_fields, "files"]
    differing = [name for name, value in existing if name in compared and value != dict(manifest)[name]]
    raise ConflictError(
        f"{manifest.reference} is published already with other content ({', '.join(differing)} differ); "
        "published versions never change: choose another version, or none to name it by its content"
    )


def _seal(staged: Path, path: str, file: Path) -> FileEntry:
    entry = measure(staged, path)
    file.chmod(0o444)
    return entry


def _link(file: Path, target: Path) -> bool:
    try:
        os.link(file, target)
    except OSError as error:
        if error.errno in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}:
            return False
        raise
    return True
