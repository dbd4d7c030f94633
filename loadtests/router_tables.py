"""The report of `tierwise bench router` as one reads it at a terminal: milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from loadtests.router_bench import RouterReport


def render(report: RouterReport) -> Group:
    """The whole report."""
    table = Table(title=f"ms a decision by {report.artifact}, {report.num_decisions} of each")
    table.add_column("characters", justify="right")
    table.add_column("form")
    for heading in (
        "p50",
        "p99",
        "wall p99",
        "reading p50",
        "p99",
        "forecast p50",
        "reading",
        "model",
        "policy",
    ):
        table.add_column(heading, justify="right")
    last = None
    for each in report.timings:
        if last not in (None, each.num_chars):
            table.add_section()
        last = each.num_chars
        model_s = max(0.0, each.forecast_p50_s - each.reading_p50_s)
        shares = (part / each.p50_s for part in (each.reading_p50_s, model_s, each.policy_p50_s))
        times = (
            each.p50_s,
            each.p99_s,
            each.wall_p99_s,
            each.reading_p50_s,
            each.reading_p99_s,
            each.forecast_p50_s,
        )
        table.add_row(
            f"{each.num_chars:,}",
            each.form,
            *(f"{1e3 * seconds:.3f}" for seconds in times),
            *(f"{share:.0%}" for share in shares),
        )
    lines = [
        Text(
            f"{'met' if bound.is_met else 'missed'}: {bound.name}, {1e3 * bound.measured_s:.3f} ms ({bound.form}), "
            f"at most {1e3 * bound.limit_s:g} ms",
            style="green" if bound.is_met else "bold red",
        )
        for bound in report.bounds
    ]
    return Group(Text(report.machine.line(), style="dim"), table, *lines)
