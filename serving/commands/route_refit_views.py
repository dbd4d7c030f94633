"""What `tierwise route refit` prints: its plan, and the figures before and after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from serving.commands.route_refit_figures import Row
from serving.commands.route_refit_plan import Plan
from serving.commands.route_refit_subject import Subject, told_of


def print_plan(plan: Plan, subject: Subject, outcomes: Path, published: str) -> None:
    """What would be asked of whom, how long that takes, and what becomes of it."""
    there = plan.num_answers - plan.num_missing
    print(f"tiers     {told_of(subject)}")
    print(
        f"to ask    {plan.num_missing:,} of {plan.num_answers:,} answers to {plan.num_prompts:,} prompts"
        + (f"; {there:,} are there" if there else "")
    )
    print(
        f"takes     about {_duration(plan.asking_s)} at {plan.pace_s:.2f} s an answer, the pace {plan.basis}; "
        "the engines' start and the fit come on top"
    )
    print(f"outcomes  {outcomes}")
    print(f"then      fit, and publish as {published}")


def print_rows(before: Sequence[Row], after: Row) -> None:
    """A line for each model, on the same outcomes."""
    arms = list(after.figures)
    table = Table("", "by", "APGR", title="on these outcomes (APGR: 0.5 is chance)", title_justify="left")
    for arm in arms:
        for heading in ("AUC", "Brier", "ECE"):
            table.add_column(f"{escape(arm)} {heading}", justify="right")
    for when, row in [*(("before", one) for one in before), ("after", after)]:
        figures = [row.figures[arm] for arm in arms]
        cells = [
            f"{value:.3f}" for one in figures for value in (one.auc, one.brier_score, one.calibration_error)
        ]
        table.add_row(when, escape(row.name), "no gap" if row.apgr is None else f"{row.apgr:.3f}", *cells)
    Console().print(table)


def refit_json(
    before: Sequence[Row], after: Row, *, kept: Sequence[str], num_asked: int, seconds: dict[str, float]
) -> str:
    """The same as one JSON object."""
    members = {
        "before": [asdict(row) for row in before],
        "after": asdict(after),
        "kept": list(kept),
        "num_asked": num_asked,
        "seconds": seconds,
    }
    return json.dumps(members, ensure_ascii=False)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
