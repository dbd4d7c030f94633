"""Which difficulty model the router decides by: the artifact that the settings name, or the heuristic.

`auto` takes router@stable only where it was fitted on the models that the tiers serve; outcomes of other weights are
other outcomes. What it takes, and why, is said at the start and stands in every decision.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.artifact import from_bytes
from router.artifact_header import ArtifactError, ArtifactHeader
from router.difficulty import DifficultyModel, StructuralHeuristic
from router.fitted import FittedModel
from serving.bringup.materialize import DELTA_FORMATS, made_name
from serving.engines.external import ExternalSettings
from serving.gateway.embedding import find_embedder
from serving.registry.errors import UnknownReferenceError
from serving.registry.manifest import Parent
from serving.registry.reference import AliasReference, PathReference, parse
from serving.registry.store import Store
from serving.settings import Settings, TierSettings
from serving.settings_sources import SettingsError

AUTO: Final = "auto"
HEURISTIC: Final = "heuristic"
STABLE: Final = AliasReference("router", "stable")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the router decides by."""

    model: DifficultyModel
    header: ArtifactHeader | None
    """None of the heuristic."""
    told: str
    """One line for a person: what it is, and why."""


@dataclass(frozen=True, slots=True)
class _Artifact:
    model: FittedModel
    header: ArtifactHeader
    parents: Sequence[Parent]
    """The tiers' artifacts that it was fitted on, each in the role of an arm; none where that was not recorded."""


def load_difficulty(settings: Settings, store: Store) -> Loaded:
    """The model that `[router] artifact` asks for.

    Raises:
        SettingsError: a named artifact cannot be used with these arms.
        RegistryError: it is not there, or damaged.
    """
    wish = settings.router.artifact
    if wish == HEURISTIC:
        return _heuristic("as configured")
    if wish == AUTO:
        return _automatic(settings, store)
    try:
        artifact = _read(wish, store)
    except ArtifactError as error:
        raise SettingsError(f"router.artifact = {wish!r}: {error}") from None
    if missing := _unknown_arms(artifact, settings):
        raise SettingsError(
            f"router.artifact = {wish!r}: {missing}; collect outcomes of it and fit again (`tierwise route collect`, "
            '`tierwise route fit`), or set router.artifact = "heuristic"'
        )
    if stranger := _other_model(artifact, settings, store):
        _log.warning("router.artifact = %r is used as it is named, though %s", wish, stranger)
    return _fitted(artifact, wish)


def _automatic(settings: Settings, store: Store) -> Loaded:
    alias = store.aliases.get(STABLE)
    if alias is None or alias.target is None:
        return _heuristic(f"there is no {STABLE}")
    try:
        artifact = _read(str(STABLE), store)
    except ArtifactError as error:
        return _heuristic(f"{STABLE} cannot be used: {error}")
    reason = _unknown_arms(artifact, settings) or _other_model(artifact, settings, store)
    return (
        _heuristic(f"{STABLE} is not for these tiers: {reason}") if reason else _fitted(artifact, str(STABLE))
    )


def _heuristic(why: str) -> Loaded:
    model = StructuralHeuristic()
    return Loaded(model=model, header=None, told=f"{model.version}, not calibrated ({why})")


def _fitted(artifact: _Artifact, name: str) -> Loaded:
    header = artifact.header
    told = f"{name}, {header.version}, fitted on {header.num_prompts} prompts"
    return Loaded(model=artifact.model, header=header, told=told)


def _read(name: str, store: Store) -> _Artifact:
    reference = parse(name)
    if isinstance(reference, PathReference):
        return _Artifact(*from_bytes(_read_file(reference.path), find_embedder), parents=())
    published = store.load(reference)
    if published.manifest.kind != "router":
        raise ArtifactError(f"{published.reference} is a {published.manifest.kind} and no router artifact")
    data = published.weights.read_bytes()
    return _Artifact(*from_bytes(data, find_embedder), parents=published.manifest.parents)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"cannot be read: {error.strerror}; correct the path, or name router@stable"
        ) from None


def _unknown_arms(artifact: _Artifact, settings: Settings) -> str | None:
    known = artifact.header.arms
    unknown = [arm.name for arm in settings.resolved_arms if arm.name not in known]
    return f"it knows the arms {', '.join(known)} and not {', '.join(unknown)}" if unknown else None


def _other_model(artifact: _Artifact, settings: Settings, store: Store) -> str | None:
    """In what way an arm's model is not, or is not known to be, the one that the artifact was fitted on."""
    parents = {parent.role: parent.reference for parent in artifact.parents}
    for arm in settings.resolved_arms:
        tier = settings.tiers[arm.tier]
        if arm.name in parents:
            fitted_on, served = str(parents[arm.name]), _reference(tier, store)
        else:
            fitted_on, served = (
                artifact.header.models.get(arm.name, "a model that is not known"),
                _name(tier, store),
            )
        if served != fitted_on:
            return f"the arm {arm.name} serves {served or 'a model without a name'}, and it was fitted on {fitted_on}"
    return None


def _reference(tier: TierSettings, store: Store) -> str | None:
    """The version in the registry that the tier serves, or what else it names."""
    if tier.model is None:
        return _name(tier, store)
    try:
        reference = parse(tier.model)
        return tier.model if isinstance(reference, PathReference) else str(store.resolve(reference))
    except UnknownReferenceError:
        return f"{tier.model}, which is not in the registry"


def _name(tier: TierSettings, store: Store) -> str | None:
    """What the tier's engine will call its model, as far as that is known before it runs."""
    if isinstance(tier.engine, ExternalSettings):
        return tier.engine.model
    assert tier.model is not None, "settings ask for the model of an engine that is launched"
    try:
        reference = parse(tier.model)
        if isinstance(reference, PathReference):
            return store.model_path(tier.model).stem
        artifact = store.load(reference, verify=False)
        if artifact.manifest.format in DELTA_FORMATS:
            return made_name(artifact.manifest, tier.engine.quantization)
        return artifact.weights.stem
    except UnknownReferenceError:
        return f"{tier.model}, which is not in the registry"


def tiers_fitted_on(models: Mapping[str, str], settings: Settings, store: Store) -> tuple[Parent, ...]:
    """The published artifacts that arms' outcomes are of: those tiers' whose model goes by the name in `models`.

    Where an arm is not of this configuration, or its tier serves another model now, or one that is not in the registry,
    it has none, and the names alone are compared later.
    """
    parents = []
    for arm in settings.resolved_arms:
        tier = settings.tiers[arm.tier]
        is_published = tier.model is not None and not isinstance(parse(tier.model), PathReference)
        if is_published and arm.name in models and _name(tier, store) == models[arm.name]:
            reference = store.resolve(str(tier.model))
            parents.append(Parent(name=reference.name, version=reference.version, role=arm.name))
    return tuple(parents)
