"""How an evaluation is shown: tables for a person, JSON for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Final

import orjson
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.evaluate import AlwaysReport, Report
from router.resampling import Estimate
from router.robustness import MARGIN, STRONG_SHARE
from serving.commands.ledger_views import console
from serving.commands.route_evaluate_gate import Verdict
from serving.commands.route_evaluate_run import Evaluation

SHOWN_SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the frontier; the rest is in the JSON and in the plot."""


def as_json(evaluations: Sequence[Evaluation], verdicts: Sequence[Verdict]) -> str:
    """Everything; what is not a number is null."""
    told = {
        "evaluations": [asdict(one) for one in evaluations],
        "required": [asdict(verdict) for verdict in verdicts],
        "is_met": all(verdict.is_met for verdict in verdicts),
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def show(evaluations: Sequence[Evaluation], verdicts: Sequence[Verdict], out: Console | None = None) -> None:
    """Print each evaluation, and what was required."""
    out = out or console()
    for one in evaluations:
        _show_one(one, out)
    for verdict in verdicts:
        _show_verdict(verdict, out)


def _show_one(one: Evaluation, out: Console) -> None:
    report = one.report
    out.print(
        f"[bold]{escape(one.name)}[/]: {report.num_prompts:,} prompts, {report.num_groups:,} unlike each other; "
        f"{escape(one.how)}",
        highlight=False,
    )
    out.print(_rankings(report), _arms(report), _frontier(report), _robustness(one), sep="\n")
    latency = one.latency
    out.print(
        f"a forecast takes {1e3 * latency.p50_s:.2f} ms (p50) and {1e3 * latency.p99_s:.2f} ms (p99) "
        f"on {latency.num_prompts:,} of these prompts\n",
        highlight=False,
    )


def _table(title: str, *headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, title=title, title_justify="left")
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _rankings(report: Report) -> Table:
    are_costs_known = report.weak.cost is not None
    headings = ("order", "APGR", "CPT(50 %)", "CPT(80 %)", "success")
    table = _table(
        "who goes to the stronger arm first", *headings, *(("cost/1000",) if are_costs_known else ())
    )
    for ranking in report.rankings:
        cells = (
            _cell(ranking.apgr),
            _cell(ranking.cpt50, percent=True),
            _cell(ranking.cpt80, percent=True),
        )
        table.add_row(ranking.name, *cells, style="bold" if ranking.name == "router" else None)
    table.add_section()
    for always in (report.weak, report.strong):
        table.add_row(f"always {escape(always.arm)}", "", "", "", *_always(always))
    return table


def _always(always: AlwaysReport) -> tuple[str, ...]:
    success = _cell(always.success)
    if always.cost is None:
        return (success,)
    cost = Estimate(*(1e3 * value for value in (always.cost.value, always.cost.low, always.cost.high)))
    return success, _cell(cost)


def _arms(report: Report) -> Table:
    headings = ("n", "success", "AUC", "Brier", "ECE", "by chance")
    table = _table("how far the probabilities hold", "arm", *headings)
    for arm in report.arms:
        figures = map(_cell, (arm.success, arm.auc, arm.brier, arm.calibration_error))
        table.add_row(escape(arm.arm), f"{arm.num_outcomes:,}", *figures, f"{arm.calibration_noise:.3f}")
    return table


def _frontier(report: Report) -> Table:
    title = f"success, where this share goes to {escape(report.strong.arm)}"
    table = _table(title, "share", "router", "over random", "random", "length", "oracle", "cost/1000")
    for point in report.frontier:
        if point.strong_share not in SHOWN_SHARES:
            continue
        gained = point.over_random
        sign = "green" if gained.low > 0 else "red" if gained.high < 0 else "yellow"
        table.add_row(
            f"{point.strong_share:.0%}",
            _cell(point.router),
            f"[{sign}]{gained.value:+.3f}[/]  {gained.low:+.3f} – {gained.high:+.3f}",
            *(f"{value:.3f}" for value in (point.random, point.prompt_length, point.oracle)),
            "—" if point.cost is None else f"{1e3 * point.cost:.4f}",
        )
    return table


def _robustness(one: Evaluation) -> Table:
    title = (
        f"the same prompts, written differently: confident decisions (further than {MARGIN:g} from the threshold at a "
        f"share of {STRONG_SHARE:g}) that flip"
    )
    table = _table(title, "rewriting", "flip", "95 %", "of", "mean |Δp|", "mean Δgain")
    for each in one.robustness:
        low, high = each.flips.interval
        table.add_row(
            each.rewriting,
            f"{each.flips.value:.1%}",
            f"{low:.1%} – {high:.1%}",
            f"{each.flips.num_all:,}",
            f"{each.mean_change:.4f}",
            f"{each.mean_gain_change:+.4f}",
        )
    return table


def _show_verdict(verdict: Verdict, out: Console) -> None:
    kind = "at most" if verdict.is_at_most else "at least"
    mark, style = ("met", "green") if verdict.is_met else ("missed", "bold red")
    out.print(
        f"[{style}]{mark}[/] {escape(verdict.table)}: {verdict.figure} {verdict.measured:.4f}, "
        f"{kind} {verdict.bound:g}",
        highlight=False,
    )


def _cell(estimate: Estimate, *, percent: bool = False) -> str:
    if not isfinite(estimate.value):
        return "—"
    if percent:
        return f"{estimate.value:.1%}  {estimate.low:.1%} – {estimate.high:.1%}"
    return f"{estimate.value:.3f}  {estimate.low:.3f} – {estimate.high:.3f}"
