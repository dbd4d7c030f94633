"""What is released: a base model as packaged, and an artifact for each tier.

An artifact is known by what it is made of, never by a version written down here: the base by its file's hash, a tier by
its recipe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from serving.bringup.packaged import PackagedModel
from serving.engines.requantize import KEPT_AT_Q8_0
from serving.registry.artifact import read_artifact
from serving.registry.errors import CorruptArtifactError
from serving.registry.manifest import Description, Manifest, Parent
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedTier:
    """A tier's alias and the quantisation it is released in."""

    alias: AliasReference
    quantization: str
    size_share: float
    """Its size as a share of the packaged file's, rounded up; for the check of free space."""
    is_student: bool = False
    """It is made of the released student, where there is one."""


BASE_ALIAS = AliasReference("base", "stable")
TIERS = (
    ReleasedTier(alias=AliasReference("full", "stable"), quantization="Q8_0", size_share=1.5),
    ReleasedTier(
        alias=AliasReference("fast", "stable"), quantization="Q4_0", size_share=1.0, is_student=True
    ),
)


def describe_base(model: PackagedModel, *, tokenizer_sha256: str) -> Description:
    """The packaged file as it is."""
    return Description(
        kind="base",
        name=model.name,
        recipe={"step": "package", "requirement": model.requirement, "member": model.member},
        tokenizer_sha256=tokenizer_sha256,
        licence=model.licence,
        format="gguf",
        quantization=model.quantization,
    )


def describe_tier(
    tier: ReleasedTier, model: PackagedModel, base: Manifest, *, chat_template: str | None
) -> Description:
    """The base in the tier's quantisation, with the release's chat template."""
    return Description(
        kind="base",
        name=_tier_name(tier, model),
        parents=(Parent(name=base.name, version=base.version, role="quantised_from"),),
        recipe=_tier_recipe(tier, model, chat_template),
        tokenizer_sha256=base.tokenizer_sha256,
        licence=base.licence,
        format="gguf",
        quantization=tier.quantization,
    )


def find_base(store: Store, model: PackagedModel) -> ArtifactReference | None:
    """The base artifact, where the registry has it."""
    return _find(store, model.name, lambda manifest: manifest.files[0].sha256 == model.gguf_sha256)


def find_tier(
    store: Store, tier: ReleasedTier, model: PackagedModel, *, chat_template: str | None
) -> ArtifactReference | None:
    """The tier's artifact, where the registry has it."""
    recipe = _tier_recipe(tier, model, chat_template)
    return _find(store, _tier_name(tier, model), lambda manifest: manifest.recipe == recipe)


def _tier_name(tier: ReleasedTier, model: PackagedModel) -> str:
    return f"{model.name}-{tier.quantization.lower()}"


def _tier_recipe(tier: ReleasedTier, model: PackagedModel, chat_template: str | None) -> dict[str, JsonValue]:
    return {
        "step": "requantize",
        "source_sha256": model.gguf_sha256,
        "quantization": tier.quantization,
        "kept_at_q8_0": [*sorted(KEPT_AT_Q8_0)],
        # its text is in the file itself, as `tokenizer.chat_template`
        "chat_template_sha256": hashlib.sha256(chat_template.encode()).hexdigest() if chat_template else None,
    }


def _find(store: Store, name: str, matches: Callable[[Manifest], bool]) -> ArtifactReference | None:
    for reference in store.references():
        if reference.name == name:
            try:
                manifest = read_artifact(store.directory(reference), reference).manifest
            except CorruptArtifactError:
                continue  # as good as absent: publishing it again replaces it
            if matches(manifest):
                return reference
    return None
