"""What a run of early exits would take, measured on its own first texts and weights. No weight is moved."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from distill.early_exit import Exiting
from distill.exit_recipe import ExitRecipe
from distill.exit_trainer import ExitTrainer
from distill.student_delta import MAX_BYTES, expected_bytes, fitting_rank
from distill.student_estimate import PhaseEstimate, Unkept
from distill.student_parts import Workshop
from train.commands.estimate import BYTES_EACH, COPIES
from train.model.llama import Llama


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitSize:
    """Of the difference that is published of an exit."""

    num_bytes: int
    """Whole, at four bits."""
    rank: int
    """To which matrices' differences are cut so that it may be published; 0 where nothing needs to be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitEstimate:
    """Of a run."""

    phase: PhaseEstimate
    evaluations_s: Mapping[str, float]
    """Of the whole and of each exit, as if items were asked domain by domain one at a time: they take less."""
    num_trained: int
    sizes: Mapping[int, ExitSize]
    """By exit."""
    peak_bytes: int
    """Of this process, having tried a step."""

    @property
    def seconds(self) -> float:
        """Altogether."""
        return self.phase.seconds + sum(self.evaluations_s.values())


def estimate(recipe: ExitRecipe, workshop: Workshop) -> ExitEstimate:
    """Try a step at a learning rate of nothing, and one item a domain of every evaluation."""
    tried = recipe.model_copy(
        update={
            "kd": recipe.kd.model_copy(update={"learning_rate": 0.0}),
            "evaluation": recipe.evaluation.model_copy(update={"num_items": 1}),
        }
    )
    exiting = Exiting(workshop.base.model, recipe.exits)
    trainer = ExitTrainer(tried, workshop, exiting, Unkept())
    began = time.perf_counter()
    metrics = trainer.learner.step(trainer.lessons.lesson(0).groups, 0)
    phase = PhaseEstimate(
        num_steps=recipe.kd.num_steps,
        step_s=time.perf_counter() - began,
        num_computed_tokens=metrics["num_computed_tokens"],
        num_learned_tokens=metrics["num_tokens"],
    )
    samplers = {"whole": workshop.teacher.sampler}
    samplers |= {f"exit {depth}": trainer.sampler(depth) for depth in recipe.exits}
    evaluations_s = {}
    for name, sampler in samplers.items():
        began = time.perf_counter()
        trainer.evaluation(sampler)
        evaluations_s[name] = recipe.evaluation.num_items * (time.perf_counter() - began)
    num_trained = sum(weight.numel() for weight in trainer.learner.weights.values())
    return ExitEstimate(
        phase=phase,
        evaluations_s=evaluations_s,
        num_trained=num_trained,
        sizes={depth: exit_size(exiting.standing_alone(depth)) for depth in recipe.exits},
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def exit_size(alone: Llama) -> ExitSize:
    """Of an exit whose layers and norm moved."""
    moved = [*alone.model.layers.parameters(), *alone.model.norm.parameters()]
    num_bytes = expected_bytes(moved)
    return ExitSize(num_bytes=num_bytes, rank=0 if num_bytes <= MAX_BYTES else fitting_rank(moved))


def show_estimate(recipe: ExitRecipe, found: ExitEstimate, console: Console) -> None:
    """As a table."""
    phase = found.phase
    rows = {
        "exits behind layers": ", ".join(map(str, recipe.exits)),
        "weights that move": f"{found.num_trained:,}",
        "their gradients and moments": f"{found.num_trained * BYTES_EACH * COPIES / 2**20:,.0f} MiB",
        "memory at its peak, about": f"{found.peak_bytes / 2**20:,.0f} MiB",
    }
    for depth, size in found.sizes.items():
        cut = f"; to publish it: --rank {size.rank}" if size.rank else ""
        rows[f"exit {depth}, difference at Q4_0"] = f"{size.num_bytes / 1e6:,.1f} MB{cut}"
    rows["steps"] = f"{phase.num_steps} of {phase.step_s:.1f} s: {_minutes(phase.seconds)}"
    computed, learned = (
        phase.num_steps * each for each in (phase.num_computed_tokens, phase.num_learned_tokens)
    )
    rows["tokens"] = f"{computed:,} read, {learned:,} learned from"
    for name, seconds in found.evaluations_s.items():
        rows[f"evaluation of {name}, at most"] = _minutes(seconds)
    rows["altogether"] = _minutes(found.seconds)
    table = Table(title=f"{recipe.name}: {recipe.about}", title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
