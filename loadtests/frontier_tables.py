"""The tables of a frontier on a terminal: what each way does, and how far each budget lies above the line."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from loadtests.frontier_figures import Point
from loadtests.frontier_report import Report, bounds, caption, cells, points, verdict


def render(report: Report) -> Group:
    """Both tables, the verdict, and what the figures are of."""
    of = report.frontier
    ways = Table(
        "", *("right", "on full", "cost of 1,000", "TTFT p50 / p95, ms", "tokens/s", "good/s"), box=None
    )
    for point in (of.fast, *of.routed.values(), of.full):
        ways.add_row(*cells(point))
    above = Table(
        "", "right, %", "above at equal share", "at equal cost", box=None, title="points, 95 % intervals"
    )
    above.add_row(of.fast.name, _score(of.fast), "", "")
    for target, point in of.routed.items():
        gain = of.gains[target]
        above.add_row(point.name, _score(point), points(gain.at_share), points(gain.at_cost))
    above.add_row(of.full.name, _score(of.full), "", "")
    return Group(ways, Text(), above, Text(), Text(verdict(of)), Text(), Text(caption(report), style="dim"))


def _score(point: Point) -> str:
    return f"{100 * point.score.value:.1f} {bounds(point.score)}"
