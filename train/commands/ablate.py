"""`tierwise train ablate`: one part of the trainer on and off, from the same start, over several seeds."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from train.commands.failures import reported
from train.commands.options import add_home_option, home_of, new_parser
from train.commands.recipe_options import overrides_of
from train.recipe import RecipeError

if TYPE_CHECKING:
    from train.trainer import Step

NAMES = ("setbacks", "curriculum", "exploration", "conflict", "modes")
RESULTS = Path("train/results")
ABOUT = """\
Compare a part of the trainer with its absence: each seed learns by heart once, every arm reinforces from those weights.
One table, mean and deviation over seeds, and the figures as JSON. Called again after it was stopped, it goes on.
"""
EXAMPLES = """\
examples:
  tierwise train ablate setbacks --out runs/setbacks
  tierwise train ablate conflict --out runs/conflict --seeds 5
  tierwise train ablate modes --out runs/modes --set sft.num_steps=200 --set rl.num_steps=50
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train ablate argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _ablate(args), wrong_use=RecipeError)


def _ablate(args: argparse.Namespace) -> int:
    from train.ablations import ABLATIONS, run_ablation
    from train.assembly import assemble

    console = Console(stderr=True)
    ablation = ABLATIONS[args.name]

    def seen(arm: str, seed: int, step: Step) -> None:
        if "evaluation" in step.metrics or step.number % 10 == 0:
            said = step.metrics.get("score", step.metrics.get("greedy", 0.0))
            console.print(f"seed {seed}  {arm}  {step.phase} {step.number}/{step.num_steps}  {said:.3f}")

    overrides = overrides_of(args.assignments)
    home = home_of(args)
    found = run_ablation(
        ablation,
        args.out,
        range(args.seeds),
        lambda recipe: assemble(recipe, home, console),
        overrides=overrides,
        on_step=seen,
    )
    keep(args.results / f"ablate_{args.name}.json", args.name, ablation.about, overrides, found)
    Console().print(table_of(f"{args.name}: {ablation.about} {args.seeds} seeds.", found))
    return 0


def table_of(title: str, found: Mapping[str, Sequence[Mapping[str, float]]]) -> Table:
    """A column an arm, a line a measure: mean ± deviation over seeds."""
    from train.ablations import spread

    table = Table(title=title, title_justify="left")
    table.add_column("")
    for arm in found:
        table.add_column(arm, justify="right")
    for name in next(iter(found.values()))[0]:
        cells = (spread([measured[name] for measured in of_arm]) for of_arm in found.values())
        table.add_row(name, *(f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in cells))
    return table


def keep(
    path: Path,
    name: str,
    about: str,
    overrides: Mapping[str, object],
    found: Mapping[str, Sequence[Mapping[str, float]]],
) -> None:
    """Write what was measured, by what and on what."""
    import torch

    plain: dict[str, Any] = {
        "ablation": name,
        "about": about,
        "overrides": dict(overrides),
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        },
        "arms": {arm: list(map(dict, of_arm)) for arm, of_arm in found.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain, indent=1) + "\n")


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("ablate", ABOUT, EXAMPLES)
    made.add_argument("name", choices=NAMES, help="what is switched")
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the runs are kept")
    made.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 … N−1")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments")
    made.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the figures go")
    add_home_option(made)
    return made
