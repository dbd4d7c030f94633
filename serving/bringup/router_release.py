"""The router artifact in the registry: how one is described, and the released one, which comes with the code.

The released one is fitted on outcomes of the released tiers (`router/data/`) and published where the registry has just
those tiers. `tierwise route fit` makes it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

import router
from router.artifact import from_bytes
from router.artifact_header import ArtifactHeader
from serving.bringup.progress import Report
from serving.registry.artifact import Artifact, read_artifact
from serving.registry.errors import CorruptArtifactError
from serving.registry.manifest import Description, Parent
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store

ROUTER_ALIAS: Final = AliasReference("router", "stable")
RELEASED_FILE: Final = Path(router.__file__).parent / "data" / "router.npz"
LICENCE: Final = "Apache-2.0"
FILE_NAME: Final = "router.npz"
FITTED_ON: Final[Mapping[str, str]] = {
    "fast": "d809ad3abbc31ab8f5077f749612cddaed8c1cc42c2e28d2c3bcfc56f4434870",
    "full": "33692c23d9555f1523180c2c1e2aa21b3c2b4eb8e400553b832b5091eab97a34",
}
"""The recipes, by hash, of the tiers whose outcomes it was fitted on. Other tiers are collected and fitted anew."""


def describe_router(
    header: ArtifactHeader, *, name: str, parents: Sequence[Parent], licence: str
) -> Description:
    """What the manifest says of a router artifact; `parents` are the tiers' artifacts, each in the role of its arm."""
    recipe: dict[str, JsonValue] = {**header.recipe, "encoding_version": header.encoding_version}
    return Description(
        kind="router",
        name=name,
        parents=tuple(sorted(parents, key=lambda parent: parent.role)),
        recipe=recipe,
        data_sha256=header.data_sha256,
        licence=licence,
        format="router",
        metrics=_metrics(header),
    )


def publish_router(store: Store, data: bytes, description: Description) -> Artifact:
    """Publish an artifact's file.

    Raises:
        RegistryError: the registry cannot be written.
    """
    with store.stage() as staged:
        (staged / FILE_NAME).write_bytes(data)
        return store.commit(staged, description)


def release_router(
    store: Store, tiers: Mapping[str, ArtifactReference], report: Report
) -> ArtifactReference | None:
    """The released router artifact, published where it is missing; None where it was fitted on other tiers.

    Args:
        store: the registry.
        tiers: the released tiers that it has, by arm.
        report: hears of it.
    """
    parents = _parents(store, tiers)
    if parents is None:
        return None
    data = RELEASED_FILE.read_bytes()
    found = _find(store, data, parents)
    if found is not None:
        return found
    _, header = from_bytes(data)
    description = describe_router(header, name=ROUTER_ALIAS.name, parents=parents, licence=LICENCE)
    published = publish_router(store, data, description).reference
    report.say(f"published {published}")
    return published


def _parents(store: Store, tiers: Mapping[str, ArtifactReference]) -> tuple[Parent, ...] | None:
    parents = []
    for arm, recipe_sha256 in FITTED_ON.items():
        reference = tiers.get(arm)
        if reference is None:
            return None
        if read_artifact(store.directory(reference), reference).manifest.recipe_sha256 != recipe_sha256:
            return None
        parents.append(Parent(name=reference.name, version=reference.version, role=arm))
    return tuple(parents)


def _find(store: Store, data: bytes, parents: Sequence[Parent]) -> ArtifactReference | None:
    sha256 = hashlib.sha256(data).hexdigest()
    for reference in store.references():
        if reference.name != ROUTER_ALIAS.name:
            continue
        try:
            manifest = read_artifact(store.directory(reference), reference).manifest
        except CorruptArtifactError:
            continue  # as good as absent: publishing it again replaces it
        if manifest.files[0].sha256 == sha256 and set(manifest.parents) == set(parents):
            return reference
    return None


def _metrics(header: ArtifactHeader) -> dict[str, dict[str, float]]:
    figures: dict[str, Any] = {arm: asdict(each) for arm, each in header.figures.items()}
    elsewhere = {f"{arm}, new domains": asdict(each) for arm, each in header.new_domain_figures.items()}
    return {"held out": dict(header.metrics), **figures, **elsewhere}
