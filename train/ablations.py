"""Ablations: one thing of the trainer on and off, the rest alike, from the same start, over several seeds.

Each seed learns by heart once; every arm reinforces from those weights. What an arm differs in is in its overrides, and
what is measured is measured on held-out items when it is done. A run that is there already is gone on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from torch import Tensor

from train.evaluate import held_out
from train.parts import Parts
from train.phase import Phase
from train.recipe import Recipe, load_recipe
from train.run_directory import RECIPE_NAME, RunDirectory, read_metrics
from train.setback_scores import score_setbacks
from train.trainer import Step, Trainer

OpenParts = Callable[[Recipe], AbstractContextManager[Parts]]


@dataclass(frozen=True, slots=True)
class Finished:
    """An arm's run at its end."""

    recipe: Recipe
    parts: Parts
    trainer: Trainer
    lines: Sequence[Mapping[str, Any]]
    """Of its metrics."""


Measure = Callable[[Finished], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """What is compared."""

    about: str
    recipe: str
    shared: Mapping[str, object] = field(default_factory=dict)
    """Overrides of every arm."""
    arms: Mapping[str, Mapping[str, object]]
    """Overrides of each, the plain one first."""
    measures: tuple[Measure, ...]


def scores(run: Finished) -> dict[str, float]:
    """Macro means over domains, before and after, greedily and by samples."""
    by_when = {line["when"]: line for line in run.lines if line["phase"] == "evaluation"}
    before, after = by_when["before"], by_when["after_rl"]
    return {
        "greedy before": before["greedy"],
        "greedy": after["greedy"],
        "sampled before": before["sampled"],
        "sampled": after["sampled"],
        "worst domain": min(row["greedy"]["mean"] for row in after["evaluation"]["domains"]),
    }


def thinking_over(run: Finished) -> dict[str, float]:
    """What a second try does."""
    items = [
        item
        for domain in run.recipe.domains
        for item in held_out(run.parts.domains[domain.name], domain.levels, run.recipe.evaluation.num_items)
    ]
    found = score_setbacks(
        items,
        sampler=run.trainer.evaluator(),
        codec=run.parts.codec,
        pool=run.parts.pool,
        max_tokens=run.trainer.max_answer_tokens,
    )
    return {"recovered": found.recovered, "lost": found.lost, "gain": found.gain}


def conflict(run: Finished) -> dict[str, float]:
    """The mean smoothed cosine of different domains over all steps, and how often one gave way."""
    steps = [line for line in run.lines if line["phase"] == "rl"]
    cosines = [
        value
        for line in steps
        for one, row in line["cosines"].items()
        for other, value in row.items()
        if one < other
    ]
    return {
        "cosine": fmean(cosines) if cosines else 0.0,
        "gave way": sum(line["num_projected"] for line in steps) / len(steps),
    }


def modes(run: Finished) -> dict[str, float]:
    """Scores and tokens of the chosen mode and of each, over domains and levels alike."""
    found = run.trainer.mode_scores()
    measured = {"works": fmean(row.work_share for row in found)}
    for name in ("chosen", "direct", "work"):
        outcomes = [{"chosen": row.chosen, "direct": row.direct, "work": row.work}[name] for row in found]
        measured[name] = fmean(outcome.score.mean for outcome in outcomes)
        measured[f"{name} tokens"] = fmean(outcome.mean_tokens for outcome in outcomes)
    return measured


ABLATIONS: Final[Mapping[str, Ablation]] = {
    "setbacks": Ablation(
        about="Second tries on the policy's own failures.",
        recipe="r1",
        shared={"base.max_tokens": 256},
        arms={"off": {}, "on": {"rl.setbacks.share": 0.25}},
        measures=(scores, thinking_over),
    ),
    "curriculum": Ablation(
        about="Where to train: by learnability and rising levels, or everywhere alike.",
        recipe="r1",
        arms={"uniform": {"rl.curriculum": "uniform"}, "learnability": {"rl.curriculum": "learnability"}},
        measures=(scores,),
    ),
    "exploration": Ablation(
        about="Temperature and wording: fixed, at random, or by what is new and uncertain.",
        recipe="r1",
        arms={kind: {"rl.exploration": kind} for kind in ("fixed", "uniform", "active")},
        measures=(scores,),
    ),
    "conflict": Ablation(
        about="Two domains of one prompt form and opposite demands: gradients summed, or projected where they oppose.",
        recipe="r1",
        shared={
            "domains": [{"name": "terse_rising", "levels": [2]}, {"name": "terse_falling", "levels": [2]}],
            "sft.num_steps": 60,  # after more nothing is left to reinforce
            "rl.conflict.is_measured": True,
        },
        arms={"summed": {}, "projected": {"rl.conflict.is_projected": True}},
        measures=(scores, conflict),
    ),
    "modes": Ablation(
        about="When to think: what a direct answer earns, and whether modes are forced at first.",
        recipe="r3",
        arms={
            "no bonus": {"modes.direct_bonus": 0.0},
            "bonus .05": {"modes.direct_bonus": 0.05},
            "bonus .2": {"modes.direct_bonus": 0.2},
            "never forced": {"modes.direct_bonus": 0.05, "modes.forced_steps": 0},
        },
        measures=(scores, modes),
    ),
}


def run_ablation(
    ablation: Ablation,
    path: Path,
    seeds: Sequence[int],
    open_parts: OpenParts,
    *,
    overrides: Mapping[str, object] | None = None,
    on_step: Callable[[str, int, Step], None] = lambda *_: None,
) -> dict[str, list[dict[str, float]]]:
    """What was measured: by arm, for each seed.

    Args:
        ablation: which.
        path: where the runs are kept.
        seeds: of the runs.
        open_parts: puts a recipe's parts together.
        overrides: of every arm, beside the ablation's: its scale.
        on_step: told of an arm, a seed and each of its steps.
    """
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in ablation.arms}
    for seed in seeds:
        shared = {**ablation.shared, **(overrides or {}), "seed": seed}
        start = _start(load_recipe(ablation.recipe, overrides=shared), path / f"seed{seed}-start", open_parts)
        for arm, different in ablation.arms.items():
            recipe = load_recipe(ablation.recipe, overrides={**shared, **different, "sft.num_steps": 0})
            place = path / f"seed{seed}-{arm.replace(' ', '_')}"
            measured = _run_arm(
                recipe, place, start, open_parts, ablation.measures, partial(on_step, arm, seed)
            )
            found[arm].append(measured)
    return found


def _start(recipe: Recipe, path: Path, open_parts: OpenParts) -> dict[str, Tensor]:
    """The weights that learning by heart comes to."""
    is_resumed = (path / RECIPE_NAME).exists()
    with open_parts(recipe) as parts, RunDirectory(path, recipe, is_resumed=is_resumed) as run:
        trainer = Trainer(recipe, parts, run, is_stopping=lambda: trainer.phase is Phase.RL)
        trainer.run(is_resumed=is_resumed)
        return {name: weight.detach().clone() for name, weight in parts.model.trained().items()}


def _run_arm(
    recipe: Recipe,
    path: Path,
    start: Mapping[str, Tensor],
    open_parts: OpenParts,
    measures: Sequence[Measure],
    on_step: Callable[[Step], None],
) -> dict[str, float]:
    is_resumed = (path / RECIPE_NAME).exists()
    with open_parts(recipe) as parts, RunDirectory(path, recipe, is_resumed=is_resumed) as run:
        for name, weight in parts.model.trained().items():
            weight.data.copy_(start[name])
        trainer = Trainer(recipe, parts, run, on_step=on_step)
        trainer.run(is_resumed=is_resumed)
        finished = Finished(recipe, parts, trainer, read_metrics(path))
        return {name: value for measure in measures for name, value in measure(finished).items()}


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and sample deviation over seeds; 0 of one seed."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
