"""`tierwise train run`, `sft` and `rl`: run a recipe, watch it, stop it at any time, and go on where it stopped."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from train.commands.failures import reported
from train.commands.options import home_of, new_parser
from train.commands.recipe_options import add_recipe_options, say_stopped, with_recipe
from train.recipe import RECIPES, Recipe, load_recipe

if TYPE_CHECKING:
    from train.parts import Parts
    from train.phase import Phase
    from train.processes import Processes

ABOUT = {
    "run": "Run a recipe: evaluate, learn reference answers by heart, reinforce, and evaluate after each.",
    "sft": "Run a recipe as far as the end of learning by heart.",
    "rl": "Run a recipe to its end; where `sft` stopped before, go on from there with --resume.",
}
EXAMPLES = """\
shipped recipes: {recipes}; or name a .toml file of your own.

Ctrl-C finishes the step, writes a checkpoint and says how to go on. A second one stops at once; what has been done
since the last checkpoint is then done again.

examples:
  tierwise train {verb} r0 --out runs/r0
  tierwise train {verb} r0 --out runs/r0 --resume
  tierwise train {verb} r1 --out runs/r1 --set rl.num_steps=50 --set seed=1
  tierwise train {verb} r1 --print-config
  tierwise train {verb} r1 --dry-run
  ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 \\
    -m tierwise train {verb} r1 --out runs/r1 --wrapping fsdp2
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train run argv…`. 0 done, 1 failed, 2 for wrong use, 130 stopped."""
    return run("run", argv)


def run(verb: str, argv: list[str]) -> int:
    """The story that the three sub-verbs share."""
    args = parser(verb).parse_args(argv)
    return with_recipe(
        args,
        lambda name, overrides: load_recipe(name, overrides=overrides),
        lambda recipe: reported(lambda: _train(verb, args, recipe)),
        out="DIR",
    )


def _train(verb: str, args: argparse.Namespace, recipe: Recipe) -> int:
    console = Console(stderr=True)
    home = home_of(args)
    if args.dry_run:
        return _dry_run(recipe, home, console)
    return _run(verb, args, recipe, home, console)


def _run(verb: str, args: argparse.Namespace, recipe: Recipe, home: Path, console: Console) -> int:
    from train.commands.run_progress import RunProgress
    from train.phase import Phase
    from train.processes import joined
    from train.shared_run import SharedRun
    from train.trainer import Trainer

    last = Phase.RL if verb == "sft" else Phase.DONE
    with (
        joined() as processes,
        SharedRun(args.out, recipe, processes, is_resumed=args.resume) as directory,
        _assembled(args, recipe, home, console, processes) as parts,
        RunProgress(console if processes.is_first else Console(quiet=True)) as progress,
        until_told() as told,
    ):
        trainer = Trainer(
            recipe,
            parts,
            directory,
            on_step=progress.step,
            on_evaluation=progress.evaluating,
            is_stopping=lambda: processes.is_any(bool(told)) or trainer.phase is last,
        )
        is_done = trainer.run(is_resumed=args.resume)
        return _said(is_done, trainer.phase, last, args, verb) if processes.is_first else 0


@contextmanager
def _assembled(
    args: argparse.Namespace, recipe: Recipe, home: Path, console: Console, processes: Processes
) -> Iterator[Parts]:
    """The run's parts, which share their work with the processes that this one was launched with."""
    from train.assembly import assemble
    from train.scale_out import Wrapping, spread_out

    with ExitStack() as stack:
        with processes.after_first():  # who brings in a base that is not there yet
            parts = stack.enter_context(assemble(recipe, home, console))
        yield spread_out(parts, recipe, processes, Wrapping(args.wrapping))


def _said(is_done: bool, phase: Phase, last: Phase, args: argparse.Namespace, verb: str) -> int:
    if is_done or phase is last:
        print(f"done; look at it with: tierwise train report {args.out}")
        return 0
    return say_stopped(f"tierwise train {verb}", args)


def _dry_run(recipe: Recipe, home: Path, console: Console) -> int:
    from train.assembly import assemble
    from train.commands.estimate import estimate, show_estimate

    with assemble(recipe, home, console) as parts:
        with console.status("one step of each phase"):
            found = estimate(recipe, parts)
        show_estimate(recipe, found, Console())
    return 0


@contextmanager
def until_told() -> Iterator[list[int]]:
    """A list that a first SIGINT or SIGTERM puts itself into; a second is the usual interruption."""
    told: list[int] = []

    def hear(number: int, _: FrameType | None) -> None:
        if told:
            raise KeyboardInterrupt
        told.append(number)
        print("finishing this step, then saving; once more to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def parser(verb: str) -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    recipes = ", ".join(sorted(path.stem for path in RECIPES.glob("*.toml")))
    made = new_parser(verb, ABOUT[verb], EXAMPLES.format(recipes=recipes, verb=verb))
    add_recipe_options(made, out="DIR", estimated="time and memory")
    made.add_argument(
        "--wrapping",
        choices=("ddp", "fsdp2"),
        default="ddp",
        help="under accelerate launch: each process has all weights, or a part of those that move",
    )
    return made
