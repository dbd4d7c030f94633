"""Garbage: what aliases, their history and parents need stays; the rest goes, and only the rest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from serving.registry.artifact import Artifact
from serving.registry.collection import Collected, collect_garbage
from serving.registry.errors import CorruptArtifactError
from serving.registry.manifest import MANIFEST_NAME
from serving.registry.reference import AliasReference
from serving.registry.store import Store

FULL_STABLE = AliasReference("full", "stable")
Publish = Callable[..., Artifact]


def versions(collected: Collected) -> list[str]:
    """The versions that were, or would be, removed."""
    return [reference.version for reference in collected.artifacts]


@pytest.fixture
def lineage(store: Store, publish: Publish, clock: Any) -> None:
    """full@stable went v1 → v2 → v3 → v4, v4 was made from `mid` and that from `root`; `stray` is nobody's."""
    for version in ("root", "stray", "v1", "v2", "v3"):
        publish(version.encode(), version=version)
    publish(b"mid", version="mid", parents=[{"name": "m", "version": "root", "role": "base"}])
    last = publish(b"v4", version="v4", parents=[{"name": "m", "version": "mid", "role": "base"}])
    for reference in store.references():
        if reference.version in {"v1", "v2", "v3"}:
            store.aliases.point(FULL_STABLE, reference, by="test")
    store.aliases.point(FULL_STABLE, last.reference, by="test")
    clock.advance(days=1)


@pytest.mark.usefixtures("lineage")
@pytest.mark.parametrize(
    ("keep_rollbacks", "removed"),
    [(0, ["stray", "v1", "v2", "v3"]), (1, ["stray", "v1", "v2"]), (9, ["stray"])],
)
def test_what_is_needed_stays(store: Store, keep_rollbacks: int, removed: list[str]) -> None:
    """The alias's target, so many rollbacks, and the parents of what stays; nothing else."""
    planned = collect_garbage(store, keep_rollbacks=keep_rollbacks, dry_run=True)
    assert len(store.references()) == 7
    done = collect_garbage(store, keep_rollbacks=keep_rollbacks)
    assert versions(done) == versions(planned) == removed
    assert done.size_bytes == planned.size_bytes > 0
    assert {reference.version for reference in store.references()} == {
        "root",
        "mid",
        "v1",
        "v2",
        "v3",
        "v4",
        "stray",
    } - set(removed)
    assert list((store.root / "staging").iterdir()) == []
    assert versions(collect_garbage(store, keep_rollbacks=keep_rollbacks)) == []
    store.load("full@stable")


@pytest.mark.usefixtures("lineage")
def test_what_was_just_published_stays(store: Store, publish: Publish) -> None:
    """A publisher has time to set its alias: the young stay, with the parents they need."""
    publish(b"young", version="young", parents=[{"name": "m", "version": "stray", "role": "base"}])
    assert versions(collect_garbage(store, keep_rollbacks=9)) == []
    assert versions(collect_garbage(store, keep_rollbacks=9, min_age=timedelta(0))) == ["stray", "young"]


@pytest.mark.usefixtures("lineage")
def test_a_needed_manifest_that_cannot_be_read_stops_it(store: Store) -> None:
    """Whose parents are unknown, nothing is removed; damage to what nobody needs stops nothing."""
    for version in ("stray", "mid"):
        manifest = store.root / "artifacts" / "m" / version / MANIFEST_NAME
        manifest.chmod(0o644)
        manifest.write_text("{")
        if version == "stray":
            assert "stray" in versions(collect_garbage(store, dry_run=True))
    with pytest.raises(CorruptArtifactError, match=r"mid/manifest\.json is damaged"):
        collect_garbage(store)
    assert len(store.references()) == 7


DIES = (
    "import os, sys; from pathlib import Path; from serving.registry.store import Store\n"
    "with Store(Path(sys.argv[1])).stage(): os._exit(9)"
)


def test_ruins_of_dead_writers_go(store: Store) -> None:
    """Staging directories of processes that died are removed; those of living ones stay."""
    with store.stage() as mine:
        subprocess.run([sys.executable, "-c", DIES, str(store.root)], check=False)
        (planned,) = collect_garbage(store, dry_run=True).abandoned
        assert planned.is_dir()
        assert collect_garbage(store).abandoned == (planned,)
        assert not planned.exists()
        assert mine.is_dir()
