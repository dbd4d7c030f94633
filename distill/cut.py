"""The first stage of a student: which of its base's layers it begins with, measured once and written down."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Set
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from distill.calibration import CalibrationText, answered, drawn, general_prompts, referenced
from distill.opened_base import OpenedBase
from distill.pruning.depth import Criterion, Stage, num_measured, remove
from distill.pruning.fidelity import Fidelity, Layers
from distill.recipe import StudentRecipe
from train.domains.base import Domain
from train.rollouts.in_process import InProcessSampler
from train.run_directory import RunError
from train.seeds import seed_of

PRUNING_NAME: Final = "pruning.json"


def kept_layers(
    recipe: StudentRecipe,
    base: OpenedBase,
    domains: Mapping[str, Domain],
    without: Set[str],
    out: Path,
    on_measured: Callable[[int, int], None] = lambda number, total: None,
) -> Layers:
    """The layers that stay: those that the recipe names, those of `out/pruning.json`, or those found now.

    Args:
        recipe: of the student.
        base: which is cut.
        domains: by name.
        without: prompts that evaluations ask.
        out: the run's directory.
        on_measured: hears how many sets of layers are measured, and of how many; what it raises leaves nothing behind.

    Raises:
        RunError: the base has no such layers, or too few.
    """
    node, num_layers = recipe.prune, base.model.shape.num_layers
    if node.kept_layers is not None:
        if node.kept_layers[-1] >= num_layers:
            raise RunError(
                f"prune.kept_layers names {node.kept_layers[-1]}; the base has 0 to {num_layers - 1}"
            )
        return node.kept_layers
    num_kept = num_layers if node.num_layers is None else node.num_layers
    if num_kept > num_layers:
        raise RunError(f"prune.num_layers is {num_kept}, and the base has {num_layers}; name fewer")
    if num_kept == num_layers:
        return tuple(range(num_layers))
    path = out / PRUNING_NAME
    if not path.exists():
        fidelity = Fidelity(base.model, calibration_texts(recipe, base, domains, without))
        stages = _measured(recipe, fidelity, num_layers - num_kept, on_measured)
        told = _report(recipe, fidelity, stages)
        part = path.with_name(f".{PRUNING_NAME}")
        part.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        part.replace(path)
    return tuple(json.loads(path.read_text(encoding="utf-8"))["kept_layers"])


def calibration_texts(
    recipe: StudentRecipe, base: OpenedBase, domains: Mapping[str, Domain], without: Set[str]
) -> list[CalibrationText]:
    """Items of domains in a drawn order with their references, and what the base says to general prompts."""
    node, seed = recipe.prune, seed_of(recipe.seed, "prune")
    entries = random.Random(seed).sample(recipe.domains, len(recipe.domains))
    prompts = []
    for index, entry in enumerate(islice(cycle(entries), node.num_items)):
        level = entry.levels[index // len(entries) % len(entry.levels)]
        prompts.append(drawn(domains[entry.name], index, level, seed=seed, without=without))
    texts = list(referenced((prompt for prompt in prompts if prompt), domains, base.codec))
    texts += answered(
        general_prompts(node.num_general, seed=seed),
        InProcessSampler(base.model),
        base.codec,
        temperature=0.0,
        max_tokens=lambda _: recipe.texts.max_general_tokens,
    )
    return [text for text in texts if len(text.token_ids) <= recipe.texts.max_text_tokens]


def _measured(
    recipe: StudentRecipe, fidelity: Fidelity, num_removed: int, on_measured: Callable[[int, int], None]
) -> list[Stage]:
    node = recipe.prune
    total = num_measured(fidelity.model.shape.num_layers, num_removed, node.beam)
    numbers = iter(range(1, total + 1))
    return remove(
        fidelity,
        num_removed,
        width=node.beam,
        criterion=Criterion(node.criterion),
        on_measured=lambda: on_measured(next(numbers), total),
    )


def _report(recipe: StudentRecipe, fidelity: Fidelity, stages: list[Stage]) -> dict[str, Any]:
    return {
        "settings": recipe.prune.model_dump(mode="json"),
        "num_tokens": fidelity.num_tokens,
        "num_computed_tokens": fidelity.num_computed,
        "kept_layers": list(stages[-1].kept),
        "stages": [stage.as_json() for stage in stages],
    }
