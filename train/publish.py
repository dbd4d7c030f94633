"""Publishes a run's policy as what it differs in from its base: megabytes instead of the whole model.

A run that moved whole weights becomes `layers-delta-1` (`serving.engines.layers_delta` describes it), one that trained
adapters peft's `lora` in half precision. The manifest names the base as parent, by name, version and the hash of its
file; the recipe, the audits of the domains it was trained on, and what the run's last evaluation found.

What was published is compared with the policy itself, all along reference answers of held-out items
(`train.compared_texts`): the manifest says under `difference` how far apart the two are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from pydantic import JsonValue

from serving.bringup.materialize import BASE_ROLE, BASE_SHA256, open_delta
from serving.bringup.progress import Report
from serving.engines import layers_delta, lora_delta
from serving.engines.layers_delta import write_layers_delta
from serving.registry.artifact import Artifact
from serving.registry.manifest import Description, Parent, digest
from serving.registry.reference import AliasReference, ArtifactReference
from serving.registry.store import Store
from train.agreement import Agreement, agreement
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.policy_file import PolicyFile
from train.codec import ChatCodec
from train.compared_texts import Text, compared_texts
from train.domains import audit
from train.model.lora import merge, save_adapter
from train.origin import policy_behind
from train.recipe import DomainSettings
from train.run_directory import RunError
from train.trained import Trained, differences, last_scores, load_trained, with_weights

RELEASED_BYTES: Final = 25_000_000
"""What may be released with the code is no larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller lays down."""

    name: str
    alias: AliasReference | None = None
    licence: str | None = None
    """The base's where None."""
    quantization: str = "Q4_0"
    """Of whole weights' differences."""


def publish(run: Path, store: Store, wishes: Wishes, report: Report) -> Artifact:
    """Publish the policy of the run's last checkpoint. The same run, published again, has the same version.

    Args:
        run: its directory.
        store: the registry.
        wishes: name, alias, licence and quantisation.
        report: hears what happens.

    Raises:
        RunError: there is no run, no checkpoint, nothing that moved, or no base that others have.
        CheckpointError, RegistryError, BringupError: its base is not there, or the registry refuses.
    """
    trained = load_trained(run, store, report)
    if trained.recipe.context is not None:
        raise RunError(
            f"{run} scales positions, of which a difference to its base cannot tell; write the whole model with "
            "`tierwise train export`"
        )
    base = trained.base(store, report, licence=wishes.licence)
    before = policy_behind(trained.source, store)
    with store.stage() as staged:
        kind = _write(trained, base, staged, wishes.quantization, is_continued=before is not None)
        description = _describe(trained, base, before, kind, wishes)
        scores = last_scores(run, trained.num_steps)
        if not scores:
            report.say(f"the run has no evaluation of its weights after {trained.num_steps} steps")
        size_bytes = sum(file.stat().st_size for file in staged.iterdir())
        compared = _compare(trained, base, staged, description, report)
        difference = {"size_bytes": float(size_bytes), **(compared.plain() if compared else {})}
        metrics = {**scores, "difference": difference}
        artifact = store.commit(staged, description.model_copy(update={"metrics": metrics}))
    report.say(f"published {artifact.reference}: {size_bytes / 1e6:.1f} MB")
    if compared is not None:
        found = compared.found
        report.say(
            f"beside the policy itself: {found.mean_divergence:.2g} nats apart, the same greedy token "
            f"{found.greedy_share:.1%} of {found.num_tokens} times, along {compared.num_texts} texts"
        )
    if size_bytes > RELEASED_BYTES:
        report.say(f"that is more than the {RELEASED_BYTES / 1e6:.0f} MB that are released with the code")
    if wishes.alias is not None:
        point(wishes.alias, artifact, store, report, by="tierwise train publish", reason=trained.recipe.name)
    return artifact


def point(
    alias: AliasReference, artifact: Artifact, store: Store, report: Report, *, by: str, reason: str
) -> None:
    """Let an alias mean what was published, and say so."""
    store.aliases.point(alias, artifact.reference, by=by, reason=reason)
    report.say(f"{alias} is {artifact.reference}")


def _write(trained: Trained, base: Artifact, staged: Path, quantization: str, *, is_continued: bool) -> str:
    """Write the difference and merge adapters into the model; the format's name."""
    if trained.recipe.adapt.method == "lora":
        if not is_continued:  # else the adapters sit on weights that are not the base's
            save_adapter(trained.model, staged, base=str(base.reference), dtype=torch.float16)
        merge(trained.model)
        if not is_continued:
            return lora_delta.FORMAT
    found = differences(trained.model, GgufFile(base.weights))
    if not found:
        raise RunError("no weight differs from the base's; train first")
    write_layers_delta(staged / layers_delta.FILE_NAME, found, quantization=quantization)
    return layers_delta.FORMAT


def _describe(
    trained: Trained, base: Artifact, before: ArtifactReference | None, kind: str, wishes: Wishes
) -> Description:
    source = str(before or base.reference)  # not a path of this machine
    recipe = {**trained.kept_recipe, "base": {**trained.kept_recipe["base"], "source": source}}
    parents = [Parent(name=base.manifest.name, version=base.manifest.version, role=BASE_ROLE)]
    if before is not None:
        parents.append(Parent(name=before.name, version=before.version, role="started_from"))
    said: dict[str, JsonValue] = {
        "step": "train",
        "recipe": recipe,
        "num_steps": trained.num_steps,
        BASE_SHA256: base.manifest.files[0].sha256,
    }
    return Description(
        kind="policy",
        name=wishes.name,
        parents=tuple(parents),
        recipe=said,
        data_sha256=data_sha256(trained.recipe.domains),
        tokenizer_sha256=base.manifest.tokenizer_sha256,
        licence=wishes.licence or base.manifest.licence,
        format=kind,
        quantization=wishes.quantization if kind == layers_delta.FORMAT else "F16",
    )


def data_sha256(domains: Sequence[DomainSettings]) -> str:
    """Of the domains as they were audited, and their levels: what a manifest says of training data."""
    records = audit.records()
    return digest(
        {
            domain.name: {
                "source_sha256": records[domain.name].source_sha256 if domain.name in records else None,
                "levels": list(domain.levels),
            }
            for domain in domains
        }
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How near the published policy is to the one it was made of."""

    found: Agreement
    num_texts: int

    def plain(self) -> dict[str, float]:
        """As the manifest has it."""
        return {
            "mean_divergence": self.found.mean_divergence,
            "greedy_share": self.found.greedy_share,
            "num_tokens": float(self.found.num_tokens),
            "num_texts": float(self.num_texts),
        }


def _compare(
    trained: Trained, base: Artifact, staged: Path, description: Description, report: Report
) -> _Comparison | None:
    shape = trained.model.shape
    delta = open_delta(description.format, staged, heads=(shape.num_heads, shape.num_kv_heads))
    published = with_weights(trained.model, PolicyFile(base.weights, delta), delta.names)
    texts = compared_texts(trained.recipe.domains, ChatCodec(trained.start))
    label = f"comparing it with the policy along {len(texts)} texts"
    with report.track(label, len(texts), "texts") as done:
        found = agreement(trained.model, published, _told(texts, done))
    return None if found is None else _Comparison(found, len(texts))


def _told(texts: Sequence[Text], done: Callable[[int], None]) -> Iterator[Text]:
    """The texts; `done` hears how many have been gone through."""
    for place, text in enumerate(texts):
        yield text
        done(place + 1)
