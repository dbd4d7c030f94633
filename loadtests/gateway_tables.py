"""The report of `tierwise bench gateway` as one reads it at a terminal: milliseconds and mebibytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from loadtests.gateway_report import (
    QUANTILES,
    GatewayCost,
    GatewayReport,
    GeneratorReport,
    LaneReport,
    MeasureReport,
)
from loadtests.quantiles import Estimate


def render(report: GatewayReport) -> Group:
    """The whole report."""
    parts: list[Table | Text] = [Text(report.machine.line(), style="dim"), Text(_shape_line(report.shape))]
    parts += [_measure_table(report.measures), _facts_table(report)]
    parts += [Text(f"warning: {warning}", style="bold red") for warning in report.warnings]
    return Group(*parts)


def _shape_line(shape: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in shape.items())


def _measure_table(measures: Sequence[MeasureReport]) -> Table:
    table = Table(title="ms from the scheduled moment; added = gateway − direct [95 % interval]")
    table.add_column("measure")
    table.add_column("n", justify="right")
    table.add_column("lane")
    for name in QUANTILES:
        table.add_column(name, justify="right")
    for measure in measures:
        direct, gateway = (_cells(values) for values in (measure.direct_s, measure.gateway_s))
        added = [_added_cell(measure.added_s[name]) for name in QUANTILES]
        table.add_row(measure.title, str(measure.num_direct), "direct", *direct)
        table.add_row("", str(measure.num_gateway), "gateway", *gateway)
        table.add_row("", "", "[bold]added", *added, end_section=True)
    return table


def _cells(values_s: dict[str, float]) -> list[str]:
    return [f"{values_s[name] * 1e3:.2f}" for name in QUANTILES]


def _added_cell(added: Estimate) -> str:
    value = f"[bold]{added.value * 1e3:+.2f}[/bold]"
    if added.low is None or added.high is None:
        return value
    return f"{value} \\[{added.low * 1e3:+.2f}, {added.high * 1e3:+.2f}]"


def _facts_table(report: GatewayReport) -> Table:
    table = Table(show_header=False)
    for name, lane in report.lanes.items():
        table.add_row(f"{name} lane", _lane_line(lane))
        for message, count in lane.errors.items():
            table.add_row("", Text(f"{count} × {message}", style="red"))
    if report.gateway is not None:
        table.add_row("gateway process", _gateway_line(report.gateway))
    table.add_row("load generator", _generator_line(report.generator))
    if report.generator.upstream_cpu_share is not None:
        table.add_row("mock upstream", f"{report.generator.upstream_cpu_share:.0%} of a core")
    table.add_row("load average before", f"{report.load_average:.2f}")
    return table


def _lane_line(lane: LaneReport) -> str:
    line = f"{lane.num_requests} requests, {lane.num_errors} errors, {lane.answers_per_s:.1f} answers/s, "
    line += f"{lane.tokens_per_s:.0f} streamed tokens/s, {lane.num_new_connections} new connections"
    tiers = ", ".join(f"{tier} {count}" for tier, count in sorted(lane.tiers.items()))
    return f"{line}; answered by {tiers}" if tiers else line


def _gateway_line(cost: GatewayCost) -> str:
    before, after = (size / 2**20 for size in (cost.rss_before_bytes, cost.rss_after_bytes))
    cpu = f"{cost.cpu_s_per_request * 1e3:.2f} ms of CPU a request, {cost.cpu_share:.0%} of a core under load"
    return f"{cpu}; {before:.0f} MiB after the warm-up, {after:.0f} MiB at the end"


def _generator_line(generator: GeneratorReport) -> str:
    lateness = (generator.lateness_p50_s, generator.lateness_p99_s, generator.lateness_max_s)
    shown = " / ".join(f"{value * 1e3:.2f}" for value in lateness)
    return f"late by p50 / p99 / max {shown} ms, {generator.cpu_share:.0%} of a core"
