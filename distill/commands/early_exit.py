"""`tierwise distill early-exit`: train a model so that its first layers stand alone, and write each of them."""

from __future__ import annotations

import argparse
import json
import random
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from distill.commands.failures import reported
from distill.commands.options import add_text_options, new_parser

if TYPE_CHECKING:
    from distill.commands.opened import Opened

ABOUT = """\
Train a model of the Llama family by one joint loss: the cross-entropy behind each of the layers named with --exits and
behind the last, each through the model's own norm and output matrix. Texts are reference answers of domains and the
model's own answers to general prompts, so that the whole model is held to what it said.

DIR becomes exit-K for each K, a checkpoint of the first K layers that transformers and vLLM load, whole for all layers,
and early-exit.json: settings, and each exit's loss step by step. It is one sitting without checkpoints in between.
"""
EXAMPLES = """\
examples:
  tierwise distill early-exit smollm2 --exits 10,20 --domains chain_sum,gcd --items 64 --out ./exits
  tierwise distill early-exit ./checkpoint --exits 6 --steps 500 --weighting equal --gguf --out ./exits
"""
REPORT_NAME = "early-exit.json"


def main(argv: list[str]) -> int:
    """Run `tierwise distill early-exit argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from distill.commands.opened import open_named
    from distill.early_exit import exits_of
    from train.run_directory import RunError

    console = Console(stderr=True)
    opened = open_named(args, console)
    try:
        exits = exits_of(opened.model.shape.num_layers, args.exits)
    except ValueError as error:
        raise RunError(str(error)) from None
    _train(args, opened, exits, console)
    print(args.out)
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("early-exit", ABOUT, EXAMPLES)
    made.add_argument("--exits", type=_depths, required=True, metavar="K,K", help="layers that stand alone")
    made.add_argument("--steps", type=int, default=100, help="(default 100)")
    made.add_argument("--texts-per-step", type=int, default=8, help="(default 8)")
    made.add_argument("--learning-rate", type=float, default=1e-4, help="constant, AdamW (default 1e-4)")
    made.add_argument(
        "--weighting",
        choices=("depth", "equal"),
        default="depth",
        help="an exit counts in proportion to its depth, or like the others (default depth)",
    )
    add_text_options(made)
    return made


def _depths(text: str) -> list[int]:
    return [int(depth) for depth in text.split(",")]


def _train(args: argparse.Namespace, opened: Opened, exits: tuple[int, ...], console: Console) -> None:
    import torch
    from rich.progress import Progress

    from distill.early_exit import Weighting, cross_entropy, exit_states, joint_loss, lines_of, standing_alone
    from distill.pruning.pruned import write_checkpoint

    model, shares = opened.model, Weighting(args.weighting).shares(exits)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.0)
    drawn = random.Random(args.seed)
    losses: list[dict[int, float]] = []
    with Progress(console=console, disable=not console.is_terminal) as bar:
        for _ in bar.track(range(args.steps), description="joint loss of the exits"):
            texts = drawn.sample(opened.texts, min(args.texts_per_step, len(opened.texts)))
            (line,) = lines_of(model, texts, per_line=len(texts))
            total, each = joint_loss(exit_states(model, line, exits), shares, cross_entropy(model, line))
            optimizer.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(each)
    for depth in exits:
        name = "whole" if depth == model.shape.num_layers else f"exit-{depth}"
        write_checkpoint(standing_alone(model, depth), opened.start, args.out / name, has_gguf=args.gguf)
    told: dict[str, Any] = {
        "settings": {name: str(value) if name == "out" else value for name, value in vars(args).items()},
        "num_texts": len(opened.texts),
        "losses": losses,
    }
    (args.out / REPORT_NAME).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    if losses:
        console.print(_table(losses))


def _table(losses: list[dict[int, float]]) -> Table:
    """Means of the first and the last tenth of the steps."""
    table = Table(title="cross-entropy behind each exit, nats a token", title_justify="left")
    for name in ("layers", "first steps", "last steps"):
        table.add_column(name, justify="right")
    num = max(1, len(losses) // 10)
    for depth in losses[0]:
        first, last = (sum(each[depth] for each in part) / num for part in (losses[:num], losses[-num:]))
        table.add_row(str(depth), f"{first:.3f}", f"{last:.3f}")
    return table
