"""Where a policy came from: the base that it is published as a difference to, and the policy that it went on from."""

from __future__ import annotations

from serving.bringup.materialize import BASE_ROLE
from serving.bringup.progress import Report
from serving.engines.requantize import open_model, tokenizer_sha256
from serving.registry.artifact import Artifact
from serving.registry.manifest import MATERIALISED_FROM, Description, Parent
from serving.registry.reference import ArtifactReference, PathReference, parse
from serving.registry.store import Store
from train.base import CONVERTED, PACKAGED, Wishes, bring_in, is_gguf, other_form, packaged
from train.checkpoints.to_gguf import convert_to_gguf


def gguf_base(source: str, store: Store, report: Report, *, licence: str | None = None) -> Artifact:
    """The base of the registry, as GGUF, that a policy trained from `source` is a difference to.

    Of a policy it is the policy's own base. A checkpoint that came from no GGUF is made one, in single precision.

    Raises:
        As `bring_in`.
    """
    if source == PACKAGED:
        return packaged(store, report)
    reference = parse(source)
    if isinstance(reference, PathReference):
        artifact = bring_in(source, store, Wishes(licence=licence), report)
    else:
        artifact = store.load(reference)
    origin = _origin(artifact, store)
    return origin if is_gguf(origin) else _as_gguf(origin, store, report)


def policy_behind(source: str, store: Store) -> ArtifactReference | None:
    """The policy that `source` means; None where it is a base."""
    if source == PACKAGED or isinstance(reference := parse(source), PathReference):
        return None
    artifact = store.load(reference, verify=False)
    return artifact.reference if artifact.manifest.kind == "policy" else None


def _origin(artifact: Artifact, store: Store) -> Artifact:
    """Where an artifact leads through conversions and policies, back to the base."""
    if is_gguf(artifact) and artifact.manifest.kind == "base":
        return artifact
    roles = {parent.role: parent.reference for parent in artifact.manifest.parents}
    for role in (BASE_ROLE, CONVERTED, MATERIALISED_FROM):
        if role in roles:
            return _origin(store.load(roles[role]), store)
    return artifact


def _as_gguf(artifact: Artifact, store: Store, report: Report) -> Artifact:
    if (found := other_form(artifact, "gguf", store)) is not None:
        return found
    manifest = artifact.manifest
    report.say(f"converting {artifact.reference} to GGUF")
    with store.stage() as staged:
        target = staged / f"{manifest.name}.F32.gguf"
        convert_to_gguf(artifact.directory, target)
        description = Description(
            kind="base",
            name=f"{manifest.name}-gguf",
            parents=(Parent(name=manifest.name, version=manifest.version, role=CONVERTED),),
            recipe={"step": "base"},
            tokenizer_sha256=tokenizer_sha256(open_model(target)),
            licence=manifest.licence,
            format="gguf",
            quantization="F32",
        )
        return store.commit(staged, description)
