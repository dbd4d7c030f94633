"""`tierwise distill student`: make a student of a model, watch it, stop it at any time, and go on where it stopped."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from distill.commands.failures import reported
from distill.commands.options import new_parser
from distill.recipe import RECIPES, StudentRecipe, load_recipe
from train.commands.options import home_of
from train.commands.recipe_options import add_recipe_options, say_stopped, with_recipe
from train.commands.run import until_told

if TYPE_CHECKING:
    from distill.student_parts import Workshop

ABOUT = """\
Make a small model of a larger one by a recipe. Its layers are cut to those whose going costs least, or to those that
the recipe names; what is left learns what its teacher says, first on reference answers and the teacher's own (KD), then
on answers that it gives itself (GKD). The teacher is the whole model, or an engine of the same tokens.
Held-out items of each domain are asked before, between, after, and of the teacher once.

RUN becomes a run's directory: recipe.json, metrics.jsonl, curves for TensorBoard, checkpoints, pruning.json; and at the
end student/, a checkpoint that transformers and vLLM load, and student.json, which says what it is.
"""
EXAMPLES = """\
shipped recipes: {recipes}; or name a .toml file of your own.

Ctrl-C finishes the step, writes a checkpoint and says how to go on. A second one stops at once; what has been done
since the last checkpoint is then done again. Finding layers to cut is begun anew.

examples:
  tierwise distill student student --out runs/fast
  tierwise distill student student --out runs/fast --resume
  tierwise distill student student --out runs/fast --set base.source=full@stable --set prune.num_layers=10
  tierwise distill student student --set teacher.url=http://127.0.0.1:8000 --dry-run
"""


class _ToldError(Exception):
    """The run is to stop while layers are sought."""


def main(argv: list[str]) -> int:
    """Run `tierwise distill student argv…`. 0 done, 1 failed, 2 for wrong use, 130 stopped."""
    args = parser().parse_args(argv)
    return with_recipe(args, load_recipe, lambda recipe: reported(lambda: _work(recipe, args)), out="RUN")


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    recipes = ", ".join(sorted(path.stem for path in RECIPES.glob("student*.toml")))
    made = new_parser("student", ABOUT, EXAMPLES.format(recipes=recipes))
    add_recipe_options(made, out="RUN", estimated="time, tokens and memory")
    made.add_argument(
        "--verbose", action="store_true", help="show every domain's scores, where they are more than 24 too"
    )
    return made


def _work(recipe: StudentRecipe, args: argparse.Namespace) -> int:
    return _dry_run(recipe, args) if args.dry_run else _run(recipe, args)


def _dry_run(recipe: StudentRecipe, args: argparse.Namespace) -> int:
    from distill.student_estimate import estimate, show_estimate
    from distill.student_parts import assembled
    from serving.bringup.progress import ConsoleReport

    with assembled(recipe, home_of(args), ConsoleReport(Console(stderr=True))) as workshop:
        show_estimate(recipe, estimate(recipe, workshop), Console())
    return 0


def _run(recipe: StudentRecipe, args: argparse.Namespace) -> int:
    from distill.commands.student_views import EvaluationViews
    from distill.student_directory import keep_origin, write_student
    from distill.student_parts import assembled
    from distill.trainer import TEACHER, StudentTrainer
    from serving.bringup.progress import ConsoleReport
    from train.commands.run_progress import RunProgress
    from train.run_directory import RunDirectory

    console = Console(stderr=True)
    with (
        RunDirectory(args.out, recipe, is_resumed=args.resume) as directory,
        assembled(recipe, home_of(args), ConsoleReport(console)) as workshop,
        until_told() as told,
    ):
        keep_origin(args.out, workshop.base)
        try:
            kept = _cut(recipe, args.out, workshop, console, told)
        except _ToldError:
            return say_stopped("tierwise distill student", args)
        parts = workshop.parts(kept)
        _warn_of_size(recipe, parts.student, console)
        views = EvaluationViews(args.out, TEACHER, is_whole=args.verbose)
        with RunProgress(console, tables=views) as progress:
            trainer = StudentTrainer(
                recipe,
                parts,
                directory,
                on_step=progress.step,
                on_evaluation=progress.evaluating,
                is_stopping=lambda: bool(told),
            )
            is_done = trainer.run(is_resumed=args.resume)
        if not is_done:
            return say_stopped("tierwise distill student", args)
        write_student(args.out, parts.student, workshop.base, kept)
    _show_retention(args, console)
    print(args.out)
    return 0


def _cut(
    recipe: StudentRecipe, out: Path, workshop: Workshop, console: Console, told: list[int]
) -> tuple[int, ...]:
    from distill.cut import kept_layers

    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("which layers stay", total=None)

        def show(number: int, total: int) -> None:
            bar.update(task, completed=number, total=total)
            if told:
                raise _ToldError

        kept = kept_layers(recipe, workshop.base, workshop.domains, workshop.without, out, show)
    console.print(f"{len(kept)} layers stay: {' '.join(map(str, kept))}", highlight=False)
    return kept


def _warn_of_size(recipe: StudentRecipe, student: object, console: Console) -> None:
    from distill.student_delta import MAX_BYTES, expected_bytes, too_large
    from distill.trainer import mark_moving
    from train.model.trainable import moving

    mark_moving(recipe, student)
    num_bytes = expected_bytes(moving(student).values())
    if num_bytes > MAX_BYTES:
        console.print(f"[yellow]warning:[/] {too_large(num_bytes)}", highlight=False)


def _show_retention(args: argparse.Namespace, console: Console) -> None:
    from distill.commands.student_views import retention_tables
    from distill.retention import last_retention
    from distill.trainer import TEACHER
    from train.run_directory import read_metrics

    rows = last_retention(read_metrics(args.out), TEACHER)
    for table in retention_tables(rows, args.out, is_whole=args.verbose):
        console.print(table)
