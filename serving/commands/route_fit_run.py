"""A fit while it runs, and what becomes of it: a table of outcomes → an artifact's bytes → the registry."""

from __future__ import annotations

import getpass
import itertools
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from router.artifact import to_bytes
from router.artifact_fit import Origin, fit_artifact, num_steps
from router.artifact_header import ArtifactHeader
from router.fit_config import FitConfig
from router.outcome_table import OutcomeTable
from router.prepared import prepare
from serving.bringup.progress import ConsoleReport
from serving.bringup.router_release import describe_router, publish_router
from serving.gateway.embedding import WORDLLAMA, load_embedding
from serving.registry.manifest import Parent
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store


def fit_table(
    table: OutcomeTable, origin: Origin, config: FitConfig, *, embedding: str
) -> tuple[bytes, ArtifactHeader]:
    """The artifact of these outcomes, with a bar on standard error.

    Args:
        embedding: `none`, or the name of one that texts are read with as well.

    Raises:
        FitRefusedError: no honest model can be made of them.
        ArtifactError: the embedding is not installed.
    """
    embed = None
    if embedding == WORDLLAMA:
        name, embed = load_embedding(WORDLLAMA)
        origin = replace(origin, embedding=name)
    prepared = prepare(table, embed)
    report, steps = ConsoleReport(Console(stderr=True)), itertools.count(1)
    label = f"fitting on {len(table)} prompts, and again without each fold"
    with report.track(label, num_steps(prepared, config), "tensors") as advance:
        model, header = fit_artifact(prepared, config, origin, on_step=lambda: advance(next(steps)))
    return to_bytes(model, header), header


def publish_fitted(
    store: Store,
    data: bytes,
    header: ArtifactHeader,
    *,
    name: str,
    alias: AliasReference | None,
    parents: Sequence[Parent],
    licence: str,
) -> ArtifactReference:
    """Publish an artifact, and let the alias point at it where there is one.

    Raises:
        RegistryError: the registry cannot be written.
    """
    description = describe_router(header, name=name, parents=parents, licence=licence)
    published = publish_router(store, data, description).reference
    if alias is not None:
        reason = f"fitted on {header.num_prompts} prompts"
        store.aliases.point(alias, published, by=getpass.getuser(), reason=reason)
    return published
