"""`tierwise distill draft train`: a head that drafts for its target."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from distill.commands.draft import new_action_parser
from distill.commands.failures import reported
from train.commands.options import add_home_option

ABOUT = """\
Train a draft head after EAGLE-3 by a recipe: one decoder layer over the target's low, middle and high states, with a
vocabulary of the tokens that the target says most. Its texts are the target's own answers to prompts of domains, and to
general ones. DIR/speculator is what `vllm serve` takes. Ctrl-C ends it; --resume goes on from the last checkpoint.
"""
EXAMPLES = """\
examples:
  tierwise distill draft train smollm2 --out ./head
  tierwise distill draft train ./my-head.toml --out ./head --resume
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill draft train argv…`. 0 done, 1 failed, 2 for wrong use, 130 interrupted."""
    args = parser().parse_args(argv)
    return reported(lambda: _train(args))


def parser() -> argparse.ArgumentParser:
    """The action's parser."""
    made = new_action_parser("train", ABOUT, EXAMPLES)
    made.add_argument("recipe", help="a shipped recipe's name, or a TOML file")
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run's directory")
    made.add_argument("--resume", action="store_true", help="go on with the run in DIR")
    add_home_option(made)
    return made


def _train(args: argparse.Namespace) -> int:
    from distill.drafts.recipe import load_recipe

    recipe = load_recipe(args.recipe)
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from distill.drafts.head_run import SPECULATOR_NAME, Target
    from distill.drafts.head_training import train_head
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.base import locate
    from train.codec import ChatCodec
    from train.commands.options import home_of
    from train.model.weights import load_llama
    from train.rollouts.in_process import InProcessSampler

    if recipe.num_threads is not None:
        torch.set_num_threads(recipe.num_threads)
    console = Console(stderr=True)
    start = locate(recipe.source, Store(home_of(args) / "registry"), ConsoleReport(console)).absolute()
    model = load_llama(start)
    target = Target(model, ChatCodec(start), InProcessSampler(model), str(start))
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("head", total=recipe.num_steps)

        def show(step: int, metrics: dict[str, Any]) -> None:
            taken = " ".join(f"{each:.2f}" for each in metrics["acceptance"])
            line = f"step {step + 1}: loss {metrics['loss']:.3f}, acceptance by depth {taken}"
            bar.update(task, completed=step + 1, description=line)
            if not console.is_terminal and (step + 1) % recipe.checkpoint_steps == 0:
                console.print(line, highlight=False)

        train_head(recipe, target, args.out, is_resumed=args.resume, on_step=show)
    print(args.out / SPECULATOR_NAME)
    return 0
