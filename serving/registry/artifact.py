"""A published artifact as it lies on the disk, and the check that its files are those that were published."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from serving.registry.errors import CorruptArtifactError, UnsafeFileError
from serving.registry.manifest import MANIFEST_NAME, FileEntry, Manifest
from serving.registry.reference import ArtifactReference

_REMEDY = (
    "run `tierwise registry verify --discard`, then publish it again (`tierwise up` for the released ones)"
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A manifest and the directory that its files lie in."""

    manifest: Manifest
    directory: Path

    @property
    def reference(self) -> ArtifactReference:
        """`name:version`."""
        return self.manifest.reference

    @property
    def weights(self) -> Path:
        """The one file that an engine loads, or the directory where the weights are several files."""
        files = self.manifest.files
        return self.directory / files[0].path if len(files) == 1 else self.directory

    def check(self) -> None:
        """Hash every file.

        Raises:
            CorruptArtifactError: the first that is missing, changed or not in the manifest.
        """
        listed = {file.path: file for file in self.manifest.files}
        try:
            present = {path for path, _ in regular_files(self.directory)} - {MANIFEST_NAME}
        except UnsafeFileError as error:
            raise CorruptArtifactError(f"{self.reference}: {error}; {_REMEDY}") from None
        for path, file in listed.items():
            if path not in present:
                raise CorruptArtifactError(f"{self.reference} lacks {self.directory / path}; {_REMEDY}")
            self._check_file(file)
        for path in sorted(present - set(listed)):
            raise CorruptArtifactError(
                f"{self.reference} holds {self.directory / path}, not published; {_REMEDY}"
            )

    def _check_file(self, expected: FileEntry) -> None:
        found = measure(self.directory, expected.path)
        if found != expected:
            raise CorruptArtifactError(
                f"{self.reference}: {self.directory / expected.path} is damaged: sha256 {found.sha256} "
                f"({found.size_bytes} bytes), published was {expected.sha256} ({expected.size_bytes} bytes); {_REMEDY}"
            )


def read_artifact(directory: Path, reference: ArtifactReference) -> Artifact:
    """The artifact in `directory`, by its manifest; files are not looked at.

    Raises:
        CorruptArtifactError: the manifest is missing, damaged, of another artifact, or of a newer schema.
    """
    artifact = read_released(directory)
    found = artifact.reference
    if found != reference:
        raise CorruptArtifactError(
            f"{directory / MANIFEST_NAME} is the manifest of {found}, not of {reference}; {_REMEDY}"
        )
    return artifact


def read_released(directory: Path) -> Artifact:
    """The artifact in a directory outside a registry, whatever its name is; files are not looked at.

    Raises:
        CorruptArtifactError: the manifest is missing, damaged, or of a newer schema.
    """
    path = directory / MANIFEST_NAME
    try:
        data = path.read_bytes()
        return Artifact(Manifest.model_validate_json(data), directory)
    except FileNotFoundError:
        raise CorruptArtifactError(f"{directory} lacks {path}; {_REMEDY}") from None
    except ValidationError as error:
        if (schema := _schema_of(data)) > 1:
            raise CorruptArtifactError(
                f"{path} has schema {schema}, this tierwise reads 1; upgrade tierwise"
            ) from None
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise CorruptArtifactError(f"{path} is damaged ({where}: {fault['msg']}); {_REMEDY}") from None


def regular_files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Every file below `directory`, as (relative path, path).

    Raises:
        UnsafeFileError: something that is neither a directory nor a regular file.
    """
    for parent, directories, names in os.walk(directory):
        for name in sorted(directories + names):
            path = Path(parent, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield path.relative_to(directory).as_posix(), path
            elif not stat.S_ISDIR(mode):
                kind = "a symlink" if stat.S_ISLNK(mode) else "no regular file"
                raise UnsafeFileError(
                    f"{path} is {kind}; an artifact holds regular files only, so copy its content"
                )


def measure(directory: Path, path: str) -> FileEntry:
    """The manifest's entry for a file as it is."""
    with (directory / path).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(path=path, sha256=sha256, size_bytes=file.tell())


def _schema_of(data: bytes) -> int:
    try:
        manifest: Any = json.loads(data)
    except ValueError:
        return 0
    schema = manifest.get("schema_version", 0) if isinstance(manifest, dict) else 0
    return schema if isinstance(schema, int) else 0
