"""`tierwise train eval`: what a checkpoint, or a run as it stands, can do on held-out items."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from train.commands.failures import reported
from train.commands.options import add_home_option, home_of, new_parser
from train.recipe import Recipe, RecipeError, ScratchSettings

if TYPE_CHECKING:
    from train.evaluate import Evaluation

ABOUT = """\
Score a policy on held-out items of domains: greedily, and by samples where asked for, with 95 % intervals over items.
POLICY is the directory of a run (its last checkpoint is scored), a checkpoint in Hugging Face's form, an artifact of
the registry, or `smollm2`. With --url the answers come from a server (llama.cpp's, vLLM's), and of POLICY there are the
domains, the tokenizer and the chat template alone.
"""
EXAMPLES = """\
examples:
  tierwise train eval runs/r0
  tierwise train eval smollm2 --domains chain_sum,gcd --levels 0,1 --items 64 --samples 4
  tierwise train eval ./checkpoint --domains chain_sum --json
  tierwise train eval smollm2 --url http://127.0.0.1:8080 --domains document_keys,document_values --levels 0,1,2
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train eval argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    from train.run_directory import RECIPE_NAME

    is_run = (Path(args.policy) / RECIPE_NAME).exists()
    if not is_run and not args.domains:
        print("tierwise: name the domains: --domains chain_sum,gcd", file=sys.stderr)
        return 2
    return reported(lambda: _eval(args, is_run=is_run))


def _eval(args: argparse.Namespace, *, is_run: bool) -> int:
    found = _evaluated(args, home_of(args), is_run=is_run)
    _show(found, args)
    return 0


def _evaluated(args: argparse.Namespace, home: Path, *, is_run: bool) -> Evaluation:
    from train import modes
    from train.answer_limits import AnswerLimits
    from train.assembly import assemble
    from train.evaluate import evaluate, held_out
    from train.run_directory import load_weights, read_recipe
    from train.transcript import answered

    recipe = read_recipe(Path(args.policy)) if is_run else _recipe(args)
    if args.url is not None:
        return _served(args, recipe, home)
    console = Console(stderr=True)
    with assemble(recipe, home, console) as parts:
        if is_run:
            load_weights(Path(args.policy), parts.model)
        items = {
            domain.name: held_out(parts.domains[domain.name], args.levels or domain.levels, args.items)
            for domain in recipe.domains
            if not args.domains or domain.name in args.domains
        }
        with console.status(f"{sum(map(len, items.values()))} items of {len(items)} domains"):
            return evaluate(
                items,
                domains=parts.domains,
                sampler=parts.evaluator(parts.sampler.policy_version + is_run),
                codec=parts.codec,
                pool=parts.pool,
                max_tokens=AnswerLimits(recipe, parts),
                num_samples=args.samples,
                read=answered if recipe.modes is None else modes.read,
            )


def _served(args: argparse.Namespace, recipe: Recipe, home: Path) -> Evaluation:
    from serving.bringup.progress import ConsoleReport
    from serving.engines.base import Endpoint
    from serving.registry.store import Store
    from train.base import locate
    from train.served import Asked, evaluate_served

    if isinstance(recipe.base, ScratchSettings):
        raise RecipeError("a policy of characters has no tokenizer that a server could have; leave --url out")
    console = Console(stderr=True)
    directory = locate(recipe.base.source, Store(home / "registry"), ConsoleReport(console))
    levels = {
        domain.name: args.levels or domain.levels
        for domain in recipe.domains
        if not args.domains or domain.name in args.domains
    }
    key = args.api_key_file.read_text(encoding="utf-8").strip() if args.api_key_file else None
    endpoint = Endpoint(url=args.url.rstrip("/"), api_key=key, keeps_connections=False)
    asked = Asked(levels=levels, num_items=args.items, num_samples=args.samples)
    with console.status(f"{args.items} items of each of {len(levels)} domains"):
        return evaluate_served(endpoint, args.model, directory, asked)


def _recipe(args: argparse.Namespace) -> Recipe:
    """A recipe of nothing but a base and domains."""
    levels = {"levels": args.levels} if args.levels else {}
    domains = [{"name": name, **levels} for name in args.domains]
    base = {"type": "artifact", "source": args.policy}
    return Recipe.model_validate({"name": "eval", "about": "an evaluation", "base": base, "domains": domains})


def _show(found: Evaluation, args: argparse.Namespace) -> None:
    from train.commands.run_progress import evaluation_tables

    if args.json:
        print(json.dumps(found.plain()))
        return
    metrics: dict[str, Any] = {"when": args.policy, "evaluation": found.plain(), "greedy": found.greedy.mean}
    if found.sampled is not None:
        metrics["sampled"] = found.sampled.mean
    for table in evaluation_tables(metrics):
        Console().print(table)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _names(text)]


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("eval", ABOUT, EXAMPLES)
    made.add_argument("policy", metavar="POLICY", help="what to score")
    made.add_argument("--domains", type=_names, default=[], metavar="A,B", help="a run's own where absent")
    made.add_argument("--levels", type=_numbers, default=[], metavar="0,1")
    made.add_argument("--items", type=int, default=32, metavar="N", help="of each domain (default 32)")
    made.add_argument(
        "--samples", type=int, default=0, metavar="N", help="beside the greedy answer (default 0)"
    )
    made.add_argument("--url", metavar="URL", help="of a server that answers in the policy's place")
    made.add_argument("--model", metavar="ID", help="there; the first that it lists where absent")
    made.add_argument("--api-key-file", type=Path, metavar="FILE", help="holds the server's key")
    add_home_option(made)
    made.add_argument("--json", action="store_true", help="one object, for programs")
    return made
