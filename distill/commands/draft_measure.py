"""`tierwise distill draft measure`: how often a target takes a draft's tokens, by domain and place of a round."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from distill.commands.draft import new_action_parser
from distill.commands.failures import reported
from train.commands.options import add_home_option

if TYPE_CHECKING:
    from rich.table import Table

    from distill.drafts.acceptance import Acceptance

ABOUT = """\
Measure a draft on held-out prompts of domains, with the target's own answers: at each place of a round Σ min(p, q), how
often both have the same likeliest token, and how many of the rounds that come so far go on; and the tokens that a
verification gives. These are what real draft-and-verify of the same text comes to. DRAFT is `ngram`, a head's
directory, or a model of the same tokens. The table goes to stderr, JSON to stdout, which `cost-model` reads.
"""
EXAMPLES = """\
examples:
  tierwise distill draft measure smollm2 --draft ngram --domains chain_sum,gcd > ngram.json
  tierwise distill draft measure smollm2 --draft ./head/speculator --domains gcd --temperature 0
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill draft measure argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _measure(args))


def parser() -> argparse.ArgumentParser:
    """The action's parser."""
    made = new_action_parser("measure", ABOUT, EXAMPLES)
    made.add_argument("target", metavar="TARGET", help="`smollm2`, a checkpoint's directory, or an artifact")
    made.add_argument("--draft", required=True, metavar="DRAFT", help="`ngram`, a head, or a model")
    made.add_argument("--domains", required=True, metavar="A,B", help="whose held-out items are answered")
    made.add_argument("--items", type=int, default=8, help="of each domain (default 8)")
    made.add_argument("--drafts", type=int, default=5, metavar="γ", help="of a round (default 5)")
    made.add_argument("--temperature", type=float, default=1.0, help="of both (default 1)")
    made.add_argument(
        "--greedy-draft",
        action="store_true",
        help="the draft proposes its likeliest token at any temperature",
    )
    made.add_argument("--max-answer-tokens", type=int, default=64, help="(default 64)")
    made.add_argument("--threads", type=int, help="torch's own choice where absent")
    add_home_option(made)
    return made


def _measure(args: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    from distill.calibration import answered, held_out_prompts
    from distill.drafts.acceptance import measure
    from distill.drafts.model_draft import Drawing
    from distill.drafts.opened import open_draft
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.base import locate
    from train.codec import ChatCodec
    from train.commands.options import home_of
    from train.domains import catalog
    from train.model.weights import load_llama
    from train.rollouts.in_process import InProcessSampler
    from train.run_directory import RunError

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    console = Console(stderr=True)
    store, report = Store(home_of(args) / "registry"), ConsoleReport(console)
    domains = [catalog.get(name) for name in args.domains.split(",")]
    start = locate(args.target, store, report)
    target = load_llama(start)
    drawing = Drawing(args.temperature, args.greedy_draft)
    draft = open_draft(args.draft, target, start, drawing, lambda name: locate(name, store, report))
    with console.status("the target answers, the draft guesses"):
        texts = answered(
            held_out_prompts(domains, args.items),
            InProcessSampler(target),
            ChatCodec(start),
            temperature=args.temperature,
            max_tokens=lambda _: args.max_answer_tokens,
        )
        try:
            found = measure(draft, texts, args.drafts)
        except ValueError as error:
            raise RunError(str(error)) from None
    console.print(_table(found))
    told: dict[str, Any] = {"settings": vars(args), "acceptance": [each.as_json() for each in found]}
    json.dump(told, sys.stdout, indent=2)
    print()
    return 0


def _table(found: list[Acceptance]) -> Table:
    from rich.table import Table

    table = Table(title="by place of a round: Σ min(p, q) / same greedy / goes on", title_justify="left")
    for name in ("domain", "texts", "tokens", "tokens a round"):
        table.add_column(name, justify="left" if name == "domain" else "right")
    for place in range(len(found[0].places)):
        table.add_column(str(place + 1), justify="right")
    for each in found:
        cells = [f"{at.expected:.2f}/{at.agreement:.2f}/{at.conditional:.2f}" for at in each.places]
        counts = (str(each.num_texts), str(each.num_tokens), f"{each.block_efficiency:.2f}")
        table.add_row(each.domain, *counts, *cells)
    return table
