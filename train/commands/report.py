"""`tierwise train report`: one page about a run: curves, domains before and after, conflict, and what was said."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from train.commands.options import new_parser

ABOUT = """\
Write one HTML page about a run, complete in itself: what it was, what its policy could do before and after by domain
with intervals, how it went about tasks with tools, the curves of every step, which domains pulled against each other,
and of each domain a right and a wrong answer of the last evaluation.
"""
EXAMPLES = """\
examples:
  tierwise train report runs/r0
  tierwise train report runs/r0 --out report.html
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train report argv…`. 0 done, 1 failed."""
    args = parser().parse_args(argv)
    from train.report import write_report

    out = args.out or args.run / "report.html"
    try:
        write_report(args.run, out)
    except (OSError, json.JSONDecodeError, KeyError) as error:
        print(f"tierwise: {args.run} holds no run that can be read: {error}", file=sys.stderr)
        return 1
    print(out)
    return 0


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("report", ABOUT, EXAMPLES)
    made.add_argument("run", type=Path, metavar="DIR", help="of the run")
    made.add_argument(
        "--out", type=Path, metavar="FILE", help="the page; report.html in the run where absent"
    )
    return made
