"""The command line of `tierwise route evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from serving.commands.route_evaluate_gate import Bound, BoundError, parse_bounds
from serving.gateway.embedding import WORDLLAMA

NO_EMBEDDING: Final = "none"

ABOUT = """\
Say how good a difficulty model is on outcomes that it has not seen: how far its probabilities hold, and how well they
spend the stronger arm beside a random order, the length of the prompt, and the oracle, each figure with a 95 % range.
DATA is what `tierwise route collect` wrote, or a file of pairs: one JSON object a line with set, subject, prompt,
weak_correct and strong_correct, each set being evaluated by itself. Models are fitted on four fifths of the prompts and
judged on the others, near-duplicates being kept together; or one is taken from --artifact, or fitted on --train.
"""

EXAMPLES = """\
examples:
  tierwise route evaluate outcomes.jsonl
  tierwise route evaluate outcomes.jsonl --artifact router@stable --report evaluation
  tierwise route evaluate pairs.jsonl.gz --set mmlu --require apgr=0.7,ece=0.03
  tierwise route evaluate new_pairs.jsonl.gz --train pairs.jsonl.gz
"""


def parser() -> argparse.ArgumentParser:
    """Its parser."""
    parser = argparse.ArgumentParser(
        prog="tierwise route evaluate",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="outcomes, one JSON object a line, plain or .gz"
    )
    parser.add_argument(
        "--set", dest="set_name", metavar="NAME", help="one set of a file of pairs (default: each)"
    )
    parser.add_argument(
        "--arms", type=_arms, metavar="A,B", help="arms to judge, weakest first (default: by cost)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of folds and intervals (%(default)s)"
    )
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--artifact", metavar="NAME", help="judge this one: a file, or one in the registry")
    model.add_argument(
        "--train", type=Path, metavar="FILE", help="fit on other outcomes; judge on all of DATA"
    )
    parser.add_argument(
        "--embedding",
        choices=(NO_EMBEDDING, WORDLLAMA),
        default=NO_EMBEDDING,
        help="what to read texts with beside our own features (default %(default)s)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON, for machines")
    output.add_argument("--report", type=Path, metavar="DIR", help="write an HTML page and its plots as PNG")
    output.add_argument(
        "--require",
        type=_bounds,
        default=(),
        metavar="BOUNDS",
        help="status 1 where missed: apgr=0.7,auc=0.6 at least, ece=0.03,brier=0.2,flips=0.02 at most; SET.apgr=…",
    )
    parser.add_argument("--home", metavar="DIR", help="where the registry of --artifact lives")
    return parser


def _arms(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) < 2:
        raise argparse.ArgumentTypeError("two arms or more, separated by commas, weakest first")
    return names


def _bounds(text: str) -> tuple[Bound, ...]:
    try:
        return parse_bounds(text)
    except BoundError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
