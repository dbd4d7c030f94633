"""`tierwise distill draft train`: a head that drafts for its target."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from distill.commands.draft import new_action_parser
from distill.commands.failures import reported
from distill.drafts.recipe import HeadRecipe, load_recipe
from distill.recipe import RECIPES
from train.commands.options import home_of
from train.commands.recipe_options import add_recipe_options, say_stopped, with_recipe

if TYPE_CHECKING:
    from rich.console import Console

    from distill.drafts.head_run import Target

ABOUT = """\
Train a draft head after EAGLE-3 by a recipe: one decoder layer over the target's low, middle and high states, with a
vocabulary of the tokens that the target says most. Its texts are the target's own answers to prompts of domains, and to
general ones. At the end the exported head is measured on held-out items of each domain.

RUN becomes a run's directory: recipe.json, metrics.jsonl, curves for TensorBoard, checkpoints, texts.json; and at the
end speculator/, which `vllm serve` takes, and acceptance.json, which `cost-model` reads.
"""
EXAMPLES = """\
shipped recipes: {recipes}; or name a .toml file of your own.

Ctrl-C finishes the step, writes a checkpoint and says how to go on. A second one stops at once; what has been done
since the last checkpoint is then done again. Asking the target for its answers is begun anew.

examples:
  tierwise distill draft train head --dry-run
  tierwise distill draft train head --out runs/head
  tierwise distill draft train head --out runs/head --resume
  tierwise distill draft train head --out runs/head --set base.source=smollm2 --set verifier=owner/name
  tierwise distill cost-model full@stable --draft runs/head/speculator --acceptance runs/head/acceptance.json
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill draft train argv…`. 0 done, 1 failed, 2 for wrong use, 130 stopped."""
    args = parser().parse_args(argv)
    return with_recipe(args, load_recipe, lambda recipe: reported(lambda: _work(recipe, args)), out="RUN")


def parser() -> argparse.ArgumentParser:
    """The action's parser."""
    recipes = ", ".join(sorted(path.stem for path in RECIPES.glob("head*.toml")))
    made = new_action_parser("train", ABOUT, EXAMPLES.format(recipes=recipes))
    add_recipe_options(made, out="RUN", estimated="time, bytes and memory")
    return made


def _work(recipe: HeadRecipe, args: argparse.Namespace) -> int:
    from rich.console import Console

    console = Console(stderr=True)
    target = _target(recipe, args, console)
    return _dry_run(recipe, target) if args.dry_run else _train(recipe, target, args, console)


def _target(recipe: HeadRecipe, args: argparse.Namespace, console: Console) -> Target:
    import torch

    from distill.drafts.head_run import Target, verifier_name
    from distill.opened_base import open_base
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.rollouts.in_process import InProcessSampler

    if recipe.num_threads is not None:
        torch.set_num_threads(recipe.num_threads)
    base = open_base(recipe, Store(home_of(args) / "registry"), ConsoleReport(console))
    return Target(base.model, base.codec, InProcessSampler(base.model), verifier_name(recipe, base.name))


def _dry_run(recipe: HeadRecipe, target: Target) -> int:
    from rich.console import Console

    from distill.drafts.head_estimate import estimate, show_estimate

    show_estimate(recipe, estimate(recipe, target), Console())
    return 0


def _train(recipe: HeadRecipe, target: Target, args: argparse.Namespace, console: Console) -> int:
    from distill.commands.draft_views import acceptance_table
    from distill.drafts.head_run import ACCEPTANCE_NAME, SPECULATOR_NAME
    from distill.drafts.head_training import train_head
    from train.commands.run import until_told
    from train.commands.run_progress import RunProgress

    with until_told() as told, RunProgress(console) as progress:
        head = train_head(
            recipe,
            target,
            args.out,
            is_resumed=args.resume,
            on_step=progress.step,
            is_stopping=lambda: bool(told),
        )
    if head is None:
        return say_stopped("tierwise distill draft train", args)
    console.print(acceptance_table(args.out / ACCEPTANCE_NAME))
    print(args.out / SPECULATOR_NAME)
    return 0
