"""A run's policy as it stands: its last checkpoint on its base, to be published or exported."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from serving.bringup.progress import Report
from serving.engines.llama_names import to_gguf_order
from serving.engines.weight_delta import Weights
from serving.registry.artifact import Artifact
from serving.registry.store import Store
from train.base import locate
from train.checkpoints.directory import CheckpointError
from train.checkpoints.gguf_file import GgufFile
from train.checkpoints.gguf_names import from_gguf_order, num_rotated_heads, tensor_names
from train.model.llama import Llama
from train.model.policy import LlamaPolicy
from train.model.weights import load_llama, state_of
from train.origin import gguf_base
from train.policy import adapt
from train.recipe import Recipe, ScratchSettings
from train.run_directory import RECIPE_NAME, RunError, load_weights, read_metrics, read_recipe


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy and where it came from."""

    recipe: Recipe
    kept_recipe: dict[str, Any]
    """The same as the run's directory has it, without what a later version would add."""
    source: str
    """The base, as the recipe names it."""
    num_steps: int
    """Of its last checkpoint."""
    model: Llama
    """Its adapters in place, where it has any."""
    start: Path
    """The directory, in Hugging Face's form, that it started from; the tokenizer is there."""

    def base(self, store: Store, report: Report, *, licence: str | None = None) -> Artifact:
        """The GGUF of the registry that it is a difference to.

        Raises:
            CheckpointError, RegistryError: there is none, and none can be made.
        """
        return gguf_base(self.source, store, report, licence=licence)


def load_trained(run: Path, store: Store, report: Report) -> Trained:
    """The policy of the run's last checkpoint.

    Raises:
        RunError: there is no run, no checkpoint, or a base of its own that nobody else has.
        CheckpointError, RegistryError: its base is not there.
    """
    recipe = read_recipe(run)
    if isinstance(recipe.base, ScratchSettings):
        raise RunError(
            f"{run} trains random weights over characters, which no engine has a tokenizer for; "
            "take a run whose recipe has a base of type `artifact`"
        )
    start = locate(recipe.base.source, store, report)
    model = load_llama(start)
    adapt(model, recipe.adapt, recipe.seed)
    num_steps = load_weights(run, LlamaPolicy(model))
    kept = json.loads((run / RECIPE_NAME).read_text(encoding="utf-8"))
    return Trained(recipe, kept, recipe.base.source, num_steps, model.eval(), start)


def differences(model: Llama, base: GgufFile) -> dict[str, Weights]:
    """Policy − base of every weight that differs, by GGUF's name and in its order of rows.

    Args:
        model: adapters merged.
        base: what it came from.

    Raises:
        CheckpointError: another model's.
    """
    state = state_of(model)
    found: dict[str, Weights] = {}
    for theirs, ours in tensor_names(model.shape).items():
        weights = state[ours].float().numpy()
        heads = num_rotated_heads(theirs, model.shape)
        ordered: Any = weights if heads is None else to_gguf_order(weights, heads)
        before = base.weight(theirs)
        if before.shape != ordered.shape:
            raise CheckpointError(f"{base.path}: {theirs} is {before.shape}, the policy's {ordered.shape}")
        if not np.array_equal(before, ordered):
            found[theirs] = ordered - before
    return found


def with_weights(model: Llama, file: GgufFile, names: Iterable[str]) -> Llama:
    """A copy of a model, the weights of these GGUF names taken from a file."""
    copied = copy.deepcopy(model)
    state, ours = copied.state_dict(), tensor_names(model.shape)
    for name in names:
        weights = file.weight(name)
        heads = num_rotated_heads(name, model.shape)
        ordered = weights if heads is None else from_gguf_order(weights, heads)
        state[ours[name]].copy_(torch.from_numpy(ordered))
    return copied


def last_scores(run: Path, num_steps: int) -> dict[str, dict[str, float]]:
    """What the run's own evaluation found of the weights after so many steps, by domain; empty where it has none."""
    try:
        lines = read_metrics(run)
    except (OSError, json.JSONDecodeError):
        return {}
    evaluations = [line for line in lines if line["phase"] == "evaluation" and line["step"] == num_steps]
    if not evaluations:
        return {}
    scores = {}
    for domain in evaluations[-1]["evaluation"]["domains"]:
        kinds = {kind: domain[kind] for kind in ("greedy", "sampled") if domain[kind] is not None}
        scores[domain["domain"]] = {
            "num_items": float(domain["num_items"]),
            **{kind: score["mean"] for kind, score in kinds.items()},
            **{f"{kind}_{end}": score[end] for kind, score in kinds.items() for end in ("low", "high")},
        }
    return scores
