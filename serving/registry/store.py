"""The registry: published artifacts under `artifacts/<name>/<version>/`, immutable, each with its manifest.

    <root>/artifacts/smollm2/1f0c…/manifest.json, model.gguf
    <root>/aliases/full@stable.json
    <root>/staging/<id>/          what is being written; `gc` and the next writer remove what a dead one left
    <root>/lock                   held for moments: a rename, an alias, gc

An artifact appears by one rename, after its bytes have reached the disk; until then nobody sees it, whatever kills the
writer. Reading takes no lock and works on a read-only file system.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from serving.registry.aliases import Aliases
from serving.registry.artifact import Artifact, read_artifact
from serving.registry.durable import sync
from serving.registry.errors import CorruptArtifactError, UnknownReferenceError, nearest, storage_errors
from serving.registry.lock import exclusive
from serving.registry.manifest import Description, Manifest
from serving.registry.publication import Transfer, prepare, refuse_other_content, settle, take
from serving.registry.reference import AliasReference, ArtifactReference, PathReference, parse
from serving.registry.staging import StagingArea

_LOCK_TIMEOUT_S = 30.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uuid.uuid4().hex


class Store:
    """The registry at `root`, which need not exist yet.

    Args:
        root: its directory.
        now: the clock of manifests and histories.
        new_id: names of staging directories; must never repeat.
    """

    def __init__(
        self, root: Path, *, now: Callable[[], datetime] = _utc_now, new_id: Callable[[], str] = _new_id
    ) -> None:
        self.root = root
        self.now = now
        self.aliases = Aliases(root / "aliases", guard=self.locked, require=self._require, now=now)
        self._artifacts = root / "artifacts"
        self._staging = StagingArea(root / "staging", guard=self.locked, new_id=new_id)

    def references(self) -> list[ArtifactReference]:
        """Everything published, damaged or not, by name and version."""
        return sorted(
            ArtifactReference(path.parent.name, path.name) for path in self._artifacts.glob("[!.]*/[!.]*")
        )

    def resolve(self, reference: str | ArtifactReference | AliasReference) -> ArtifactReference:
        """The version that a reference of the registry means.

        Raises:
            InvalidReferenceError: not written as a reference.
            UnknownReferenceError: nothing in the registry, or a path.
        """
        parsed = parse(reference) if isinstance(reference, str) else reference
        if isinstance(parsed, PathReference):
            raise UnknownReferenceError(
                f"{parsed} is a path; name an artifact, as `tierwise registry list` does"
            )
        if isinstance(parsed, ArtifactReference):
            self._require(parsed)
            return parsed
        target = self.aliases.resolve(parsed)
        if not self.directory(target).is_dir():
            raise UnknownReferenceError(
                f"{parsed} points at {target}, which is not in the registry any more; publish it again "
                f"(`tierwise up` for the released ones) or set the alias to another version"
            )
        return target

    def load(self, reference: str | ArtifactReference | AliasReference, *, verify: bool = True) -> Artifact:
        """The artifact, its files hashed first unless `verify` is off.

        Raises:
            RegistryError: the reference is unknown, or a file is not what was published.
        """
        resolved = self.resolve(reference)
        with storage_errors(self.root):
            artifact = read_artifact(self.directory(resolved), resolved)
            if verify:
                artifact.check()
        return artifact

    def model_path(self, reference: str, *, verify: bool = True) -> Path:
        """What an engine is to load for a tier's `model`: an artifact's weights, or a path as it stands.

        Raises:
            RegistryError: as `load`; also for a path that does not exist.
        """
        parsed = parse(reference)
        if not isinstance(parsed, PathReference):
            return self.load(parsed, verify=verify).weights
        if not parsed.path.exists():
            raise UnknownReferenceError(
                f"no file {parsed}; correct the path, or name an alias such as full@stable"
            )
        return parsed.path.absolute()

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """An empty directory on the registry's file system, to write an artifact's files into and then `commit`.

        It is removed at the end, unless committed; where the process dies, the next writer or `gc` removes it.
        """
        with storage_errors(self.root), self._staging.open() as directory:
            yield directory

    def commit(self, staged: Path, description: Description, *, version: str | None = None) -> Artifact:
        """Publish the files in a directory from `stage` without copying them.

        Equal content under the same version is published once; a damaged copy of it is replaced.

        Args:
            staged: the directory; renamed away, or left for `stage` to remove where the artifact exists already.
            description: what it is.
            version: the first twelve digits of the content's hash where absent.

        Raises:
            ConflictError: other content stands under that version.
            UnknownReferenceError: a parent is not in the registry.
            UnsafeFileError: a symlink, or anything else that is not a regular file.
        """
        with storage_errors(self.root):
            manifest = prepare(staged, description, version=version, created_at=self.now())
            self._make_way(manifest)
            target = self.directory(manifest.reference)
            with self.locked():
                for parent in manifest.parents:
                    self._require(parent.reference)
                settle(staged, target, manifest)
            return read_artifact(target, manifest.reference)

    def publish(
        self,
        source: Path,
        description: Description,
        *,
        version: str | None = None,
        transfer: Transfer = "copy",
    ) -> Artifact:
        """Publish a file, or all files below a directory.

        Args:
            source: the file or directory.
            description: what it is.
            version: as in `commit`.
            transfer: `move` takes the files away instead of copying them, once the artifact is published.

        Raises:
            RegistryError: as `commit`.
        """
        with self.stage() as staged:
            taken = take(source, staged, transfer)
            artifact = self.commit(staged, description, version=version)
            for path in taken if transfer == "move" else ():
                path.unlink()
            return artifact

    def discard(self, reference: ArtifactReference) -> None:
        """Remove an artifact, whatever points at it. It vanishes at once; its bytes follow."""
        with self.stage() as staged, self.locked():
            self.retire(reference, staged)

    def retire(self, reference: ArtifactReference, staged: Path) -> None:
        """Move an artifact into a directory from `stage`, which takes it along. Call it under the lock."""
        with suppress(FileNotFoundError):
            self.directory(reference).rename(staged / f"{reference.name}.{reference.version}")
            sync(self.directory(reference).parent)

    def abandoned(self) -> list[Path]:
        """What writers that died left in staging. Call it under the lock."""
        return self._staging.abandoned()

    def sweep(self) -> list[Path]:
        """Remove what dead writers left, and say what it was."""
        with storage_errors(self.root):
            return self._staging.sweep()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The registry's lock; not reentrant."""
        with storage_errors(self.root), exclusive(self.root / "lock", timeout_s=_LOCK_TIMEOUT_S):
            yield

    def directory(self, reference: ArtifactReference) -> Path:
        """Where the version lies, or would."""
        return self._artifacts / reference.name / reference.version

    def _require(self, reference: ArtifactReference) -> None:
        if not self.directory(reference).is_dir():
            known = [str(other) for other in self.references()]
            remedy = nearest(str(reference), known, otherwise="`tierwise registry list` shows what there is")
            raise UnknownReferenceError(f"no {reference} in {self.root}; {remedy}")

    def _make_way(self, manifest: Manifest) -> None:
        """Discard a damaged copy of what is about to be published."""
        directory = self.directory(manifest.reference)
        if not directory.is_dir():
            return
        try:
            existing = read_artifact(directory, manifest.reference)
            refuse_other_content(existing.manifest, manifest)
            existing.check()
        except CorruptArtifactError:
            self.discard(manifest.reference)
