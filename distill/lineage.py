"""What an artifact really is: the policy or base behind its conversions, and what that was trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from serving.bringup.progress import Report
from serving.registry.artifact import Artifact
from serving.registry.manifest import MATERIALISED_FROM
from serving.registry.reference import PathReference, parse
from serving.registry.store import Store
from train.base import CONVERTED, PACKAGED, packaged
from train.recipe import DomainSettings
from train.run_directory import RECIPE_NAME


def source_of(name: str, store: Store, report: Report) -> Artifact | None:
    """What was published first of an artifact that may be only another form of it; None for files of one's own.

    Raises:
        RegistryError, BringupError: it is not there.
    """
    if name == PACKAGED:
        return packaged(store, report)
    reference = parse(name)
    if isinstance(reference, PathReference):
        return None
    artifact = store.load(reference, verify=False)
    while forms := [
        each for each in artifact.manifest.parents if each.role in {MATERIALISED_FROM, CONVERTED}
    ]:
        artifact = store.load(forms[0].reference, verify=False)
    return artifact


def domains_of(candidate: str, teacher: str, store: Store, report: Report) -> list[DomainSettings]:
    """The domains of a candidate's run, or else those that the teacher was trained on; empty where neither says."""
    kept = Path(candidate) / RECIPE_NAME
    if kept.exists():
        return _read(json.loads(kept.read_text(encoding="utf-8")))
    source = source_of(teacher, store, report)
    recipe = None if source is None else source.manifest.recipe.get("recipe")
    return _read(recipe)


def asked_of(
    known: Sequence[DomainSettings], names: Sequence[str], levels: Sequence[int]
) -> list[DomainSettings]:
    """The domains that are named, or all that are known; at other levels than those of training where any are."""
    by_name = {each.name: each for each in known}
    found = [by_name.get(name) or DomainSettings(name=name) for name in names or by_name]
    return [each.model_copy(update={"levels": tuple(levels)}) for each in found] if levels else found


def _read(recipe: Any) -> list[DomainSettings]:
    said = recipe.get("domains", []) if isinstance(recipe, dict) else []
    try:
        return TypeAdapter(list[DomainSettings]).validate_python(said)
    except ValidationError:
        return []  # of another version: then domains have to be named
