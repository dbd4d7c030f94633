"""`tierwise train bench-step`: what a recipe's steps cost, beside what their products alone would take."""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from train.commands.failures import reported
from train.commands.options import new_parser
from train.recipe import BaseSettings, RecipeError, load_recipe

ABOUT = """\
Take steps by heart and steps of reinforcement of a recipe, and say what each stage costs in CPU seconds, and how far
it is from its floor: operations over the rate of a float product on this machine. Samples with the model itself and in
eight bits, and says how far each sampler's probabilities are from the learner's. Writes nothing.
"""
EXAMPLES = """\
examples:
  tierwise train bench-step r0
  tierwise train bench-step r2 --base ./checkpoint --sft-steps 6 --rl-steps 2 --threads 1
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train bench-step argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _bench(args), wrong_use=RecipeError)


def _bench(args: argparse.Namespace) -> int:
    import torch

    from train.commands.recipe_options import overrides_of
    from train.step_benchmark import measure

    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe, overrides=overrides_of(args.assignments))
    if isinstance(recipe.base, BaseSettings) and args.base is None:
        raise RecipeError(f"{recipe.name} starts from {recipe.base.source}; say where it is with --base")
    cost = measure(recipe, lambda _: args.base, num_sft_steps=args.sft_steps, num_rl_steps=args.rl_steps)
    print(f"{recipe.name}, {args.threads} threads, float32, {cost.operations_per_s / 1e9:.0f} GFLOP/s")
    for name, stage in cost.stages.items():
        line = f"{name:13} {median(stage.cpu_s):7.3f} CPU s"
        if stage.floor_s:
            line += (
                f", floor {median(stage.floor_s):7.3f}; {median(stage.num_tokens):.0f} tokens, "
                f"{median(stage.num_computed):.0f} computed; each: {', '.join(f'{each:.2f}' for each in stage.cpu_s)}"
            )
        print(line)
    for name, ratios in cost.ratios.items():
        for each in ratios:
            print(
                f"{name:13} ratio to the learner: mean {each.mean:.4f}, largest {each.largest:.3f}, "
                f"beyond the clip {each.clipped_share:.4f}; divergence {each.divergence:+.5f} nats a token"
            )
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("bench-step", ABOUT, EXAMPLES)
    made.add_argument("recipe", help="a shipped recipe's name, or a .toml file")
    made.add_argument("--base", type=Path, metavar="DIR", help="a checkpoint in Hugging Face's form")
    made.add_argument("--sft-steps", type=int, default=6, help="that are timed; one more goes before them")
    made.add_argument("--rl-steps", type=int, default=2)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments")
    return made
