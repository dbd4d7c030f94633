"""`tierwise train compare`: runs of one recipe and several seeds as one table, before and after."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from train.commands.failures import reported
from train.commands.options import new_parser

if TYPE_CHECKING:
    from train.evaluate import Score
    from train.seeds_compared import Row, SeedsCompared

ABOUT = """\
Put finished runs of one recipe that differ in their seed side by side: the score of each domain before, after learning
by heart and after reinforcement, ± half a 95 % interval, what the last phase brought, and each seed's mean. Figures are
those that the runs measured of themselves.
"""
EXAMPLES = """\
examples:
  tierwise train compare runs/r2-seed0 runs/r2-seed1 runs/r2-seed2
  tierwise train compare runs/r2-seed0 runs/r2-seed1 --answers sampled --json r2.json
"""


def main(argv: list[str]) -> int:
    """Run `tierwise train compare argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: _compare(args))


def _compare(args: argparse.Namespace) -> int:
    from train.seeds_compared import compare

    found = compare(args.runs, args.answers)
    if args.json is not None:
        args.json.write_text(json.dumps({"answers": args.answers, **asdict(found)}, indent=1) + "\n")
    console = Console()
    console.print(table_of(found, args.answers))
    for seed, by_moment in zip(found.seeds, found.by_seed, strict=True):
        told = "  ".join(f"{moment} {mean:.3f}" for moment, mean in by_moment.items())
        console.print(f"seed {seed}: {told}", highlight=False)
    if found.fallen:
        console.print(f"down beyond noise: {', '.join(found.fallen)}", highlight=False)
    return 0


def table_of(found: SeedsCompared, answers: str) -> Table:
    """A line a domain, a column a moment, and what the last phase brought."""
    title = f"{found.recipe}: {answers} score on held-out items, {len(found.seeds)} seeds"
    table = Table(title=title, title_justify="left")
    table.add_column("domain")
    for moment in found.moments:
        table.add_column(moment.replace("_", " "), justify="right")
    table.add_column("last gain", justify="right")
    for row in found.domains:
        table.add_row(*_cells(row))
    table.add_section()
    table.add_row(*_cells(found.macro))
    return table


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser."""
    made = new_parser("compare", ABOUT, EXAMPLES)
    made.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="directories of finished runs")
    made.add_argument(
        "--answers", choices=("greedy", "sampled"), default="greedy", help="of which (default greedy)"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="the same as JSON")
    return made


def _cells(row: Row) -> tuple[str, ...]:
    return (row.name, *(_cell(score, ".3f") for score in row.scores.values()), _cell(row.gain, "+.3f"))


def _cell(score: Score, form: str) -> str:
    return f"{score.mean:{form}} ± {score.half_width:.3f}"
