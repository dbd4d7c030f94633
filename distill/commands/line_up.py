"""`tierwise distill line-up`: several models beside one another, in one table."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from distill.commands.failures import reported
from distill.commands.measuring import add_asking_options, add_trying_options, questions_of, trying_of
from distill.commands.options import new_parser
from train.commands.options import add_home_option

if TYPE_CHECKING:
    from rich.console import Console

    from distill.line_up.entrants import Entrant
    from distill.line_up.run import Wish
    from distill.line_up.standings import Standing
    from serving.bringup.progress import Report
    from serving.registry.store import Store

ABOUT = """\
Hold several models against the first of them, the reference. All answer the same held-out items on llama.cpp, as tiers
are served; then all are brought up at once in each engine and write in turn, alone and at 16 streams. The table has:

  score      mean verified score over domains, and how much of the reference's is kept, with bootstrap intervals in
             which all models' scores of an item stay together
  size       of the file that llama.cpp loads, and the bytes of weights that a lone stream's token reads: divided by
             what memory brings in a second, the least time of a token
  tokens/s   medians over rounds; ratios to the reference's of the same round, with the interval of their median
  cost       seconds of the machine for a solved task: tokens of an answer × seconds of a token at the most streams,
             by the mean score

With a router, also score and cost on the requests that it leaves to each model when so large a share goes to the
reference; requests whose like it has not seen go to the reference first. It was fitted on the tiers that it knows:
another model in a tier's place is judged by the same order.

A model is LABEL=NAME, NAME being a run of `tierwise distill student`, a checkpoint's directory, a GGUF file, or an
artifact. vLLM takes what is no GGUF as it is, and of a GGUF the numbers that its weights stand for.
"""
EXAMPLES = """\
examples:
  tierwise distill line-up full=full@stable q4_0=fast@stable
  tierwise distill line-up full=full@stable student=runs/fast q4_0=fast@stable exit10=./exits/exit-10 \\
      --vllm-python .venv-vllm/bin/python --resume runs/line-up --markdown
  tierwise distill line-up full=full@stable q4_0=fast@stable --domains chain_sum,gcd --items 8 --router none --dry-run

Stopped with Ctrl-C, the same command with the same --resume goes on: every measurement is a file there, named by what
was measured, so that only what changed is measured again. They are of one machine: take another directory on another.
"""


def main(argv: list[str]) -> int:
    """Run `tierwise distill line-up argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _line_up(args))


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("line-up", ABOUT, EXAMPLES)
    made.add_argument(
        "models", nargs="+", type=_entrant, metavar="LABEL=NAME", help="the first is the reference"
    )
    add_asking_options(made, "what all are asked")
    add_trying_options(made, num_rounds=6)
    made.add_argument(
        "--quantization",
        default="Q4_0",
        metavar="TYPE",
        help="of all but the first in llama.cpp, where they are no GGUF (default Q4_0)",
    )
    made.add_argument(
        "--router",
        default="router@stable",
        metavar="ARTIFACT",
        help="or its file, auto, heuristic; none asks none (default router@stable)",
    )
    made.add_argument(
        "--shares",
        type=_shares,
        default=(0.1, 0.25, 0.5),
        metavar="S,S",
        help="of requests that go to the reference (default 0.1,0.25,0.5)",
    )
    made.add_argument("--resume", type=Path, metavar="DIR", help="keep measurements there, and use what is")
    made.add_argument("--dry-run", action="store_true", help="say what it would take, and ask nothing")
    shown = made.add_mutually_exclusive_group()
    shown.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    shown.add_argument("--json", action="store_true", help="print all figures, each domain's too")
    add_home_option(made)
    return made


def _line_up(args: argparse.Namespace) -> int:
    from rich.console import Console

    from distill.commands.line_up_views import outlook_table
    from distill.line_up.cells import Cells
    from distill.line_up.run import measure, outlook
    from distill.line_up.standings import standings
    from serving.bringup.progress import ConsoleReport
    from serving.registry.store import Store
    from train.commands.options import home_of

    console = Console(stderr=True)
    report = ConsoleReport(console)
    home = home_of(args)
    store = Store(home / "registry")
    wish = _wish(args, store, report)
    with ExitStack() as stack:
        where = args.resume
        if where is None:
            where = Path(stack.enter_context(TemporaryDirectory(prefix="tierwise-line-up-cells-")))
            if not args.dry_run:
                report.say("measurements are kept no longer than this run; --resume DIR keeps them")
        cells = Cells(where)
        if args.dry_run:
            Console().print(outlook_table(outlook(wish, store, report, cells)))
            return 0
        measured = measure(wish, store, home, report, cells)
    found = standings(
        measured, streams=max(wish.trying.load.nums_streams), shares=args.shares, seed=args.seed
    )
    _show(args, found, Console())
    return 0


def _wish(args: argparse.Namespace, store: Store, report: Report) -> Wish:
    from distill.line_up.run import Wish

    first, *others = args.models
    args.against = first.name
    candidate = others[0].name if others else first.name
    return Wish(
        entrants=args.models,
        questions=questions_of(args, candidate, store, report),
        trying=trying_of(args, quantization=args.quantization),
        router=None if args.router == "none" else args.router,
    )


def _show(args: argparse.Namespace, found: tuple[Standing, ...], console: Console) -> None:
    from distill.commands.line_up_views import markdown, tables

    if args.json:
        sys.stdout.write(json.dumps({"standings": [asdict(each) for each in found]}, indent=2) + "\n")
    elif args.markdown:
        sys.stdout.write(markdown(found))
    else:
        for table in tables(found):
            console.print(table)


def _entrant(text: str) -> Entrant:
    from distill.line_up.entrants import Entrant

    try:
        return Entrant.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(share) for share in text.split(",") if share)
    except ValueError:
        found = ()
    if not found or not all(0 <= share < 1 for share in found):
        raise argparse.ArgumentTypeError(f"{text!r} are no shares; write them like 0.1,0.25")
    return found
