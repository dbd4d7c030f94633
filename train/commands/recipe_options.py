"""A sub-verb that runs a recipe: its options, the recipe that they come to, and the command that goes on."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from serving.settings_sources import parse_value
from train.commands.options import add_home_option
from train.recipe import RecipeError, Tree


def add_recipe_options(parser: argparse.ArgumentParser, *, out: str, estimated: str) -> None:
    """Add the recipe and what is asked about it.

    Args:
        parser: of the sub-verb.
        out: what the run's directory is called.
        estimated: what a dry run says.
    """
    parser.add_argument("recipe", metavar="RECIPE", help="a shipped recipe, or a .toml file")
    parser.add_argument("--out", type=Path, metavar=out, help="where the run is kept")
    parser.add_argument("--resume", action="store_true", help="go on with the run that is there")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments")
    add_home_option(parser)
    parser.add_argument("--print-config", action="store_true", help="print the resolved recipe, and end")
    parser.add_argument(
        "--dry-run", action="store_true", help=f"say what the run takes, in {estimated}, and end"
    )


def with_recipe(
    args: argparse.Namespace,
    load: Callable[[str, dict[str, object]], Tree],
    work: Callable[[Tree], int],
    *,
    out: str,
) -> int:
    """Hand the recipe to `work`, or print it where that was asked for; 2 for wrong use.

    Args:
        args: of a parser with `add_recipe_options`.
        load: by name, with overrides.
        work: gives the exit status.
        out: as there.
    """
    try:
        recipe = load(args.recipe, overrides_of(args.assignments))
    except RecipeError as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    if args.print_config:
        print(json.dumps(recipe.model_dump(mode="json"), indent=2))
        return 0
    if args.out is None and not args.dry_run:
        print(f"tierwise: say where the run is kept: --out {out}", file=sys.stderr)
        return 2
    return work(recipe)


def say_stopped(command: str, args: argparse.Namespace) -> int:
    """Say how to go on; the exit status. A run goes on with the recipe that it was begun with."""
    assigned = "".join(f" --set {shlex.quote(each)}" for each in args.assignments)
    again = f"{command} {args.recipe} --out {args.out} --resume{assigned}"
    print(f"stopped and saved; go on with: {again}")
    return 130


def overrides_of(assignments: list[str]) -> dict[str, object]:
    """Members by dotted path, from `KEY=VALUE` texts.

    Raises:
        RecipeError: a text is none.
    """
    overrides: dict[str, object] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise RecipeError(f"--set {assignment}: write it as KEY=VALUE, for example --set rl.num_steps=50")
        overrides[key.strip()] = parse_value(text.strip())
    return overrides
