"""The model that students are cut from and heads draft for: of the registry, a run, or random weights; and whence."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distill.recipe import BasedRecipe, RunSettings
from serving.bringup.progress import Report
from serving.registry.reference import PathReference, parse
from serving.registry.store import Store
from train.base import PACKAGED, locate, packaged
from train.codec import CharacterCodec, ChatCodec, Codec
from train.model.llama import Llama
from train.model.lora import merge
from train.model.weights import load_llama, state_of
from train.origin import gguf_base
from train.policy import build_policy, scratch_llama
from train.recipe import BaseSettings, ScratchSettings
from train.run_directory import RunError, load_weights, read_recipe


@dataclass(frozen=True, slots=True)
class OpenedBase:
    """A whole model, adapters merged."""

    model: Llama
    codec: Codec
    start: Path | None
    """Its checkpoint's directory, where the tokenizer is; None for a policy of characters."""
    name: str
    """A version of the registry, or a path."""
    base: str
    """What a student of it is published as a difference to: a version of the registry, or a path."""

    def origin(self) -> dict[str, Any]:
        """What a run writes down of it, for `student.json`."""
        return {"teacher": self.name, "teacher_sha256": weights_sha256(self.model), "base": self.base}


def open_base(recipe: BasedRecipe, store: Store, report: Report) -> OpenedBase:
    """Load what the recipe names.

    Raises:
        RunError: a run that cannot be used.
        CheckpointError, RegistryError, BringupError: what is named is not there.
        UnsupportedModelError: another family than Llama's.
    """
    node = recipe.base
    if isinstance(node, ScratchSettings):
        codec = CharacterCodec()
        model = scratch_llama(node, codec.num_tokens, recipe.seed)
        return OpenedBase(model, codec, None, "scratch", "scratch")
    if isinstance(node, RunSettings):
        return _of_run(node.path, store, report)
    name, base = _names(node.source, store, report)
    start = locate(name, store, report)
    return OpenedBase(load_llama(start), ChatCodec(start), start, name, base)


def weights_sha256(model: Llama) -> str:
    """Of all weights, by name; the same whatever file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state_of(model).items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def _names(source: str, store: Store, report: Report) -> tuple[str, str]:
    """The version that a source means now, and its base; of what is no artifact, the path, or the hub's name."""
    if source == PACKAGED:
        reference = str(packaged(store, report).reference)
        return reference, reference
    reference = parse(source)
    if isinstance(reference, PathReference):
        named = str(reference.path.absolute()) if reference.path.exists() else source
        return named, named
    return str(store.load(reference).reference), str(gguf_base(source, store, report).reference)


def _of_run(run: Path, store: Store, report: Report) -> OpenedBase:
    trained = read_recipe(run)
    if trained.context is not None:
        raise RunError(
            f"{run} scales positions, of which a student's difference cannot tell; take another run"
        )
    here = trained.model_copy(update={"device": "cpu", "precision": "float32"})
    policy = build_policy(here, lambda source: locate(source, store, report), num_slots=1)
    load_weights(run, policy.model)
    model = policy.model.model
    merge(model)
    base = (
        _names(trained.base.source, store, report)[1] if isinstance(trained.base, BaseSettings) else "scratch"
    )
    return OpenedBase(model, policy.codec, policy.base, str(run.absolute()), base)
