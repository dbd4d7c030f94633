"""A policy that was published as a difference, made into a model that an engine loads: base + difference, requantised.

It happens at the first use, with numpy and the gguf library alone, and what is made is an artifact beside the others:
it appears whole or not at all, is found again by what it was made of, and lives as long as its policy does. The same
policy in another quantisation is another artifact.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from serving.bringup.packaged import chat_template_of
from serving.bringup.progress import Report
from serving.engines import layers_delta, lora_delta, student_delta
from serving.engines.layers_delta import LayersDelta
from serving.engines.lora_delta import LoraDelta
from serving.engines.requantize import KEPT_AT_Q8_0, SourceModel, open_model, requantize
from serving.engines.student_delta import StudentDelta
from serving.engines.weight_delta import DeltaError, WeightDelta
from serving.registry.artifact import Artifact, read_artifact
from serving.registry.errors import CorruptArtifactError
from serving.registry.manifest import MATERIALISED_FROM, Description, Manifest, Parent
from serving.registry.reference import ArtifactReference, PathReference, parse
from serving.registry.store import Store

DELTA_FORMATS: Final = frozenset({layers_delta.FORMAT, lora_delta.FORMAT, student_delta.FORMAT})
BASE_ROLE: Final = "base"
BASE_SHA256: Final = "base_sha256"
"""The recipe's member that says which GGUF the difference is to."""


def engine_model(store: Store, reference: str, report: Report, *, quantization: str) -> Path:
    """What an engine is to load for a tier's `model`.

    Args:
        store: the registry.
        reference: of an artifact, or a path.
        report: hears of it where a policy has to be made first.
        quantization: of what is made; other artifacts and files are what they are.

    Raises:
        RegistryError: it is unknown or damaged.
        DeltaError: it is a difference to another base.
    """
    parsed = parse(reference)
    if isinstance(parsed, PathReference):
        return store.model_path(reference)
    artifact = store.load(parsed)
    if artifact.manifest.format not in DELTA_FORMATS:
        return artifact.weights
    template = chat_template_of(str(artifact.manifest.recipe.get(BASE_SHA256)))
    made = materialize(store, artifact, report, quantization=quantization, chat_template=template)
    return made.weights


def materialize(
    store: Store, policy: Artifact, report: Report, *, quantization: str, chat_template: str | None
) -> Artifact:
    """The policy as a whole model; found where it was made before, and made again where that is damaged.

    Args:
        store: the registry.
        policy: published as a difference.
        report: hears of it.
        quantization: of what is made.
        chat_template: replaces the base's, where given.

    Raises:
        RegistryError: the base is not in the registry, or damaged; the registry cannot be written.
        DeltaError: the policy is damaged, or of another base.
    """
    found = find_materialized(store, policy.manifest, quantization=quantization, chat_template=chat_template)
    if found is not None:
        try:
            return store.load(found)
        except CorruptArtifactError:
            report.say(f"{found} is damaged; making it again")
    base = base_of(store, policy)
    source = open_model(base.weights)
    delta = open_delta(policy.manifest.format, policy.directory, heads=_heads(source))
    description = describe_materialized(policy.manifest, base.manifest, quantization, chat_template)
    label = f"making {policy.reference} in {quantization}"
    with store.stage() as staged:
        with report.track(label, len(source.reader.tensors), "tensors") as done:
            requantize(
                source,
                staged / f"{made_name(policy.manifest, quantization)}.gguf",
                quantization=quantization,
                chat_template=chat_template,
                delta=delta,
                on_tensor=lambda index, _: done(index),
            )
        artifact = store.commit(staged, description)
    report.say(f"published {artifact.reference}")
    return artifact


def made_name(policy: Manifest, quantization: str) -> str:
    """What the engine that serves it calls the whole model: its file's name, without the ending."""
    return f"{policy.name}.{quantization}"


def find_materialized(
    store: Store, policy: Manifest, *, quantization: str, chat_template: str | None
) -> ArtifactReference | None:
    """The policy in this quantisation, where the registry has it; its files are not looked at."""
    parent = _parent_of(policy)
    if not store.directory(parent.reference).is_dir():
        return None
    base = store.load(parent.reference, verify=False).manifest
    wanted = describe_materialized(policy, base, quantization, chat_template)
    for reference in store.references():
        if reference.name == wanted.name:
            try:
                manifest = read_artifact(store.directory(reference), reference).manifest
            except CorruptArtifactError:
                continue  # as good as absent: making it again replaces it
            if manifest.recipe == wanted.recipe:
                return reference
    return None


def describe_materialized(
    policy: Manifest, base: Manifest, quantization: str, chat_template: str | None
) -> Description:
    """What is said of the whole model that is made of a policy; its recipe is how it is found again."""
    return Description(
        kind=policy.kind,
        name=f"{policy.name}-{quantization.lower()}",
        parents=(
            Parent(name=policy.name, version=policy.version, role=MATERIALISED_FROM),
            Parent(name=base.name, version=base.version, role=BASE_ROLE),
        ),
        recipe={
            "step": "materialize",
            "policy_sha256": policy.content_sha256,
            BASE_SHA256: base.files[0].sha256,
            "quantization": quantization,
            "kept_at_q8_0": [*sorted(KEPT_AT_Q8_0)],
            "chat_template_sha256": hashlib.sha256(chat_template.encode()).hexdigest()
            if chat_template
            else None,
        },
        data_sha256=policy.data_sha256,
        tokenizer_sha256=base.tokenizer_sha256,
        licence=policy.licence,
        format="gguf",
        quantization=quantization,
    )


def base_of(store: Store, policy: Artifact) -> Artifact:
    """The GGUF that a policy is a difference to, checked.

    Raises:
        RegistryError: it is not in the registry, or damaged.
        DeltaError: what stands under its name is another base.
    """
    base = store.load(_parent_of(policy.manifest).reference)
    wanted, found = policy.manifest.recipe.get(BASE_SHA256), base.manifest.files[0].sha256
    if found != wanted:
        raise DeltaError(
            f"{policy.reference} is a difference to a base of sha256 {wanted}, and {base.reference} is {found}; "
            "bring the base in that it was trained from"
        )
    return base


def open_delta(kind: str, directory: Path, *, heads: tuple[int, int] | None) -> WeightDelta:
    """A difference, to be added to a base.

    Args:
        kind: one of `DELTA_FORMATS`.
        directory: of its files.
        heads: of the base's queries and keys; None where it is no Llama.

    Raises:
        DeltaError: it is damaged, or not to be added to such a base.
    """
    if kind == layers_delta.FORMAT:
        return LayersDelta(directory / layers_delta.FILE_NAME)
    if kind == student_delta.FORMAT:
        return StudentDelta(directory / student_delta.FILE_NAME)
    if heads is None:
        raise DeltaError(
            f"{directory} holds adapters; these are merged into models of the Llama family alone"
        )
    return LoraDelta(directory, num_heads=heads[0], num_kv_heads=heads[1])


def _parent_of(policy: Manifest) -> Parent:
    for parent in policy.parents:
        if parent.role == BASE_ROLE:
            return parent
    raise DeltaError(f"{policy.reference} names no parent in the role `{BASE_ROLE}`; publish it again")


def _heads(base: SourceModel) -> tuple[int, int] | None:
    counts = [base.reader.get_field(f"llama.attention.{name}") for name in ("head_count", "head_count_kv")]
    queries, keys = (None if field is None else int(field.contents()) for field in counts)
    return None if queries is None else (queries, queries if keys is None else keys)
