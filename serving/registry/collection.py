"""What may go: artifacts that neither an alias, nor its latest history, nor a kept artifact's parents need.

What was materialised from an alias's target stays with it, for an engine runs on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from serving.registry.artifact import read_artifact
from serving.registry.errors import CorruptArtifactError
from serving.registry.manifest import MATERIALISED_FROM
from serving.registry.reference import ArtifactReference
from serving.registry.store import Store

KEEP_ROLLBACKS = 2
MIN_AGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Collected:
    """What `collect_garbage` removed, or would remove."""

    artifacts: tuple[ArtifactReference, ...]
    size_bytes: int
    """Of those artifacts."""
    abandoned: tuple[Path, ...]
    """Staging directories of writers that died."""


def collect_garbage(
    store: Store, *, keep_rollbacks: int = KEEP_ROLLBACKS, min_age: timedelta = MIN_AGE, dry_run: bool = False
) -> Collected:
    """Remove what nothing needs.

    Args:
        store: the registry.
        keep_rollbacks: for each alias, how many earlier targets stay beside the current one.
        min_age: younger artifacts stay, so that a publisher has time to set its alias.
        dry_run: say what would go, and leave it.

    Raises:
        CorruptArtifactError: the manifest of a needed artifact is damaged, so its parents are unknown.
    """
    if dry_run:
        with store.locked():
            doomed = _unneeded(store, keep_rollbacks, min_age)
            return Collected(tuple(doomed), _size(store, doomed), tuple(store.abandoned()))
    abandoned = store.sweep()
    with store.stage() as staged:
        with store.locked():
            doomed = _unneeded(store, keep_rollbacks, min_age)
            size_bytes = _size(store, doomed)
            for reference in doomed:
                store.retire(reference, staged)
        return Collected(tuple(doomed), size_bytes, tuple(abandoned))


def _unneeded(store: Store, keep_rollbacks: int, min_age: timedelta) -> list[ArtifactReference]:
    published = store.references()
    kept = store.aliases.targets(keep=keep_rollbacks).values()
    roots = {target for targets in kept for target in targets}
    roots |= {reference for reference in published if _is_materialised_from(store, reference, roots)}
    roots |= {reference for reference in published if _is_young(store, reference, min_age)}
    needed = _with_ancestors(store, roots & set(published))
    return [reference for reference in published if reference not in needed]


def _with_ancestors(store: Store, roots: Iterable[ArtifactReference]) -> set[ArtifactReference]:
    needed: set[ArtifactReference] = set()
    waiting = list(roots)
    while waiting:
        reference = waiting.pop()
        if reference not in needed and store.directory(reference).is_dir():
            needed.add(reference)
            manifest = read_artifact(store.directory(reference), reference).manifest
            waiting += [parent.reference for parent in manifest.parents]
    return needed


def _is_materialised_from(
    store: Store, reference: ArtifactReference, sources: set[ArtifactReference]
) -> bool:
    """Whether an engine may be running on it, because an alias points at what it was made from."""
    try:
        parents = read_artifact(store.directory(reference), reference).manifest.parents
    except CorruptArtifactError:
        return False
    return any(parent.role == MATERIALISED_FROM and parent.reference in sources for parent in parents)


def _is_young(store: Store, reference: ArtifactReference, min_age: timedelta) -> bool:
    try:
        manifest = read_artifact(store.directory(reference), reference).manifest
    except CorruptArtifactError:
        return False
    return store.now() - manifest.created_at < min_age


def _size(store: Store, references: Iterable[ArtifactReference]) -> int:
    files = (path for reference in references for path in store.directory(reference).rglob("*"))
    return sum(path.lstat().st_size for path in files if path.is_file())
