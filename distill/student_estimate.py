"""What a student's run would take, measured on its own first texts and weights: seconds, tokens, bytes.

No weight is moved and nothing is written. Where layers are still to be found, evenly spaced ones stand for them.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from distill.cut import calibration_texts
from distill.pruning.depth import by_position, num_measured
from distill.pruning.fidelity import Fidelity
from distill.recipe import StudentRecipe
from distill.student_delta import MAX_BYTES, expected_bytes, too_large
from distill.student_parts import Workshop
from distill.trainer import Phase, StudentTrainer
from train.checkpointing import Checkpoint
from train.commands.estimate import BYTES_EACH, COPIES
from train.rollouts.in_process import InProcessSampler


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEstimate:
    """Of one phase."""

    num_steps: int
    step_s: float
    num_computed_tokens: int
    """Of a step: that student and teacher read."""
    num_learned_tokens: int
    """Of a step: at which they are compared."""

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return self.num_steps * self.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentEstimate:
    """Of a run."""

    num_layers: int
    num_trained: int
    phases: Mapping[Phase, PhaseEstimate]
    pruning_s: float
    """0 where layers are named."""
    evaluation_s: float
    """Of all evaluations, as if items were asked domain by domain one at a time: they take less."""
    learner_bytes: int
    """Gradients and moments."""
    delta_bytes: int
    """Of the difference that is published, whole at four bits."""
    peak_bytes: int
    """Of this process, having tried a step of each phase: what the run will about take."""


def estimate(recipe: StudentRecipe, workshop: Workshop) -> StudentEstimate:
    """Try everything once at a learning rate of nothing."""
    num_layers = workshop.base.model.shape.num_layers
    node = recipe.prune
    kept = node.kept_layers or _evenly(num_layers, node.num_layers or num_layers)
    pruning_s = 0.0 if node.kept_layers else _pruning_s(recipe, workshop, num_layers - len(kept))
    parts = workshop.parts(kept)
    tried = {phase: StudentTrainer(_tried(recipe, phase), parts, Unkept()) for phase in (Phase.KD, Phase.GKD)}
    phases = {phase: _phase(recipe, phase, trainer) for phase, trainer in tried.items()}
    trainer = tried[Phase.KD]
    began = time.perf_counter()
    trainer.evaluation(workshop.teacher.sampler)
    between = time.perf_counter()
    trainer.evaluation(InProcessSampler(parts.student))
    ended = time.perf_counter()
    every = recipe.evaluation.every_steps
    num_steps = recipe.kd.num_steps + recipe.gkd.num_steps
    num_of_student = 3 + (num_steps // every if every else 0)
    moving = list(trainer.learner.weights.values())
    num_trained = sum(weight.numel() for weight in moving)
    return StudentEstimate(
        num_layers=len(kept),
        num_trained=num_trained,
        phases=phases,
        pruning_s=pruning_s,
        evaluation_s=recipe.evaluation.num_items * (between - began + num_of_student * (ended - between)),
        learner_bytes=num_trained * BYTES_EACH * COPIES,
        delta_bytes=expected_bytes(moving),
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def show_estimate(recipe: StudentRecipe, found: StudentEstimate, console: Console) -> None:
    """As a table, and a warning where the difference is too large to publish."""
    table = Table(title=f"{recipe.name}: {recipe.about}", title_justify="left", show_header=False)
    rows = {
        "layers that stay": str(found.num_layers),
        "weights that move": f"{found.num_trained:,}",
        "their gradients and moments": f"{found.learner_bytes / 2**20:,.0f} MiB",
        "memory at its peak, about": f"{found.peak_bytes / 2**20:,.0f} MiB",
        "the difference to the base, Q4_0": f"{found.delta_bytes / 1e6:,.1f} MB",
        "finding the layers": _minutes(found.pruning_s),
    }
    for phase, each in found.phases.items():
        rows[phase] = f"{each.num_steps} steps of {each.step_s:.1f} s: {_minutes(each.seconds)}"
        computed, learned = (
            each.num_steps * num for num in (each.num_computed_tokens, each.num_learned_tokens)
        )
        rows[f"tokens of {phase}"] = f"{computed:,} read, {learned:,} learned from"
    rows["evaluations, at most"] = _minutes(found.evaluation_s)
    total = found.pruning_s + found.evaluation_s + sum(each.seconds for each in found.phases.values())
    rows["altogether"] = _minutes(total)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    if found.delta_bytes > MAX_BYTES:
        console.print(f"[yellow]warning:[/] {too_large(found.delta_bytes)}", highlight=False)


def _evenly(num_layers: int, num_kept: int) -> tuple[int, ...]:
    return tuple(range(num_layers)) if num_kept == num_layers else _spread(num_layers, num_kept)


def _spread(num_layers: int, num_kept: int) -> tuple[int, ...]:
    ways = by_position(num_layers, num_layers - num_kept)
    return ways.get("evenly", ways["first"])


def _pruning_s(recipe: StudentRecipe, workshop: Workshop, num_removed: int) -> float:
    """Half of the layers' time for each set: what is below the layer that goes is held."""
    if not num_removed:
        return 0.0
    texts = calibration_texts(recipe, workshop.base, workshop.domains, workshop.without)
    fidelity = Fidelity(workshop.base.model, texts)
    num_layers = workshop.base.model.shape.num_layers
    began = time.perf_counter()
    fidelity.score(_spread(num_layers, max(1, (num_layers - num_removed // 2) // 2)))
    return num_measured(num_layers, num_removed, recipe.prune.beam) * (time.perf_counter() - began)


def _tried(recipe: StudentRecipe, phase: Phase) -> StudentRecipe:
    """The recipe with this phase first, nothing moving, and one item a domain in evaluations."""
    settings = recipe.kd if phase is Phase.KD else recipe.gkd
    return recipe.model_copy(
        update={
            "kd": settings.model_copy(update={"learning_rate": 0.0}),
            "evaluation": recipe.evaluation.model_copy(update={"num_items": 1}),
        }
    )


def _phase(recipe: StudentRecipe, phase: Phase, trainer: StudentTrainer) -> PhaseEstimate:
    began = time.perf_counter()
    metrics = trainer.learner.step(trainer.lessons.lesson(0).groups, 0)
    return PhaseEstimate(
        num_steps=(recipe.kd if phase is Phase.KD else recipe.gkd).num_steps,
        step_s=time.perf_counter() - began,
        num_computed_tokens=metrics["num_computed_tokens"],
        num_learned_tokens=metrics["num_tokens"],
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"


class Unkept:
    """A `run_directory.Run` of a run that leaves nothing behind."""

    num_lines: Final = 0

    def record(self, phase: str, step: int, metrics: Mapping[str, Any]) -> None:
        """Nothing."""

    def keep_answers(self, answers: Mapping[str, Any]) -> None:
        """Nothing."""

    def forget_after(self, num_lines: int) -> None:
        """Nothing."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Nothing."""

    def latest(self) -> None:
        """None."""
