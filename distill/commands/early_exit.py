"""`tierwise distill early-exit`: teach the first layers of a model to stand alone, and go on where it stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from distill.commands.failures import reported
from distill.commands.options import new_parser
from distill.exit_recipe import ExitRecipe, load_recipe
from distill.recipe import RECIPES
from train.commands.options import home_of
from train.commands.recipe_options import add_recipe_options, say_stopped, with_recipe
from train.commands.run import until_told

ABOUT = """\
Teach a copy of a model's first layers to say, behind each exit that the recipe names, what the whole model says. All
exits learn at once by one joint loss; each has a last norm of its own and the model's output matrix. The model itself
stays as it is. Held-out items of each domain are asked of the whole at the beginning and of each exit at the end.

RUN becomes a run's directory: recipe.json, metrics.jsonl, curves for TensorBoard, checkpoints; and at the end exit-K/
for each exit, which `evaluate`, `line-up` and `publish` take as a student's run: exit-K/student is a checkpoint of K
layers that transformers and vLLM load.
"""
EXAMPLES = """\
shipped recipes: {recipes}; or name a .toml file of your own.

Ctrl-C finishes the step, writes a checkpoint and says how to go on. A second one stops at once; what has been done
since the last checkpoint is then done again.

examples:
  tierwise distill early-exit early_exit --dry-run
  tierwise distill early-exit early_exit --out runs/exits
  tierwise distill early-exit early_exit --out runs/exits --resume
  tierwise distill early-exit early_exit --out runs/exits --set exits=[8,16] --set base.source=smollm2
  tierwise distill publish runs/exits/exit-10 --against full@stable --name exit10
"""
RETENTION_NAME = "retention.txt"
"""In an exit's directory: every domain beside the whole model."""


def main(argv: list[str]) -> int:
    """Run `tierwise distill early-exit argv…`. 0 done, 1 failed, 2 for wrong use, 130 stopped."""
    args = parser().parse_args(argv)
    return with_recipe(args, load_recipe, lambda recipe: reported(lambda: _work(recipe, args)), out="RUN")


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    recipes = ", ".join(sorted(path.stem for path in RECIPES.glob("early_exit*.toml")))
    made = new_parser("early-exit", ABOUT, EXAMPLES.format(recipes=recipes))
    add_recipe_options(made, out="RUN", estimated="time, tokens and memory")
    return made


def _work(recipe: ExitRecipe, args: argparse.Namespace) -> int:
    return _dry_run(recipe, args) if args.dry_run else _run(recipe, args)


def _dry_run(recipe: ExitRecipe, args: argparse.Namespace) -> int:
    from distill.exit_estimate import estimate, show_estimate
    from distill.student_parts import assembled
    from serving.bringup.progress import ConsoleReport

    with assembled(recipe, home_of(args), ConsoleReport(Console(stderr=True))) as workshop:
        show_estimate(recipe, estimate(recipe, workshop), Console())
    return 0


def _run(recipe: ExitRecipe, args: argparse.Namespace) -> int:
    from distill.early_exit import Exiting
    from distill.exit_directory import write_exits
    from distill.exit_trainer import ExitTrainer
    from distill.student_directory import keep_origin
    from distill.student_parts import assembled
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
        exiting = Exiting(workshop.base.model, recipe.exits)
        with RunProgress(console, tables=lambda _: iter(())) as progress:
            trainer = ExitTrainer(
                recipe,
                workshop,
                exiting,
                directory,
                on_step=progress.step,
                on_evaluation=progress.evaluating,
                is_stopping=lambda: bool(told),
            )
            is_done = trainer.run(is_resumed=args.resume)
        if not is_done:
            return say_stopped("tierwise distill early-exit", args)
        write_exits(args.out, exiting, workshop.base)
    console.print(_kept_table(recipe, args.out))
    print(args.out)
    return 0


def _kept_table(recipe: ExitRecipe, out: Path) -> Table:
    """A line an exit beside the whole model, nats by the first and last tenth of the steps."""
    from distill.commands.student_views import cells, retention_table, write_tables
    from distill.early_exit import exit_name
    from distill.exit_directory import exit_directory
    from distill.retention import retention_at
    from distill.trainer import TEACHER
    from train.run_directory import read_metrics

    lines = read_metrics(out)
    title = (
        "what each exit kept of the whole model, greedy, and nats between them in the first and last steps"
    )
    table = Table(title=f"{title}; every domain: exit-K/{RETENTION_NAME}", title_justify="left")
    for name in ("layers", "whole", "exit", "kept", "first", "last"):
        table.add_column(name, justify="right", no_wrap=True)
    for depth in recipe.exits:
        rows = retention_at(exit_name(depth), lines, TEACHER)
        write_tables(exit_directory(out, depth) / RETENTION_NAME, [retention_table(rows)])
        nats = [line[f"divergence_{exit_name(depth)}"] for line in lines if line["phase"] == "kd"]
        num = max(1, len(nats) // 10)
        apart = [f"{sum(some) / len(some):.3f}" if some else "" for some in (nats[:num], nats[-num:])]
        table.add_row(str(depth), *cells(rows[-1]), *apart)
    return table
