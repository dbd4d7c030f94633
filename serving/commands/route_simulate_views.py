"""How simulated runs are shown: a table for a person, JSON for a program, a page with plots."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from statistics import median
from typing import Final, Self

import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from router.budget_config import BudgetConfig
from router.plan import Winner
from router.scenarios import TOLERANCE, Run, Scenario
from router.settling import WINDOW_S, Settling, trailing_mean, trailing_metric
from router.simulate import Second, total
from serving.commands.line_chart import Chart, Line

MAX_ROWS: Final = 500
"""Points of a run's series."""
FLOOR_SLACK: Final = 0.01

HELD, FLOOR_HELD, MISSED, REPLAYED = "held", "floor held", "missed", "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The series at one moment."""

    at: float
    realised: float
    """Trailing mean of a scenario; of a ledger, the mean of its stretch. In the metric's unit."""
    price_of_compute: float
    quality: float
    """Mean probability of success, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """One run as it is shown; means are over the requests from the change on."""

    verdict: str
    settling: Settling | None
    realised: float
    full_share: float
    cost_per_request: float
    quality: float
    success_share: float | None
    is_floor_binding: bool
    is_budget_infeasible: bool
    is_budget_slack: bool
    series: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A scenario or a ledger, played."""

    name: str
    about: str
    config: BudgetConfig
    since_s: float
    runs: Sequence[PlayedRun]

    @property
    def is_held(self) -> bool:
        """Whether every run held what it had to."""
        return all(run.verdict != MISSED for run in self.runs)

    @classmethod
    def of_scenario(cls, name: str, scenario: Scenario, runs: Sequence[Run]) -> Self:
        """What came of a scenario."""
        return cls(
            name=name,
            about=scenario.about,
            config=scenario.config,
            since_s=scenario.since_s,
            runs=[_scenario_run(scenario, run) for run in runs],
        )

    @classmethod
    def of_ledger(cls, config: BudgetConfig, stretches: Sequence[Second]) -> Self:
        """What came of a ledger, in stretches of equal length."""
        points = []
        began = 0.0
        for stretch in stretches:
            points.append(_point(stretch, _realised(config, stretch, stretch.at - began), _quality(stretch)))
            began = stretch.at
        run = _run(config, stretches, REPLAYED, None, points, began=0.0)
        return cls(name="ledger", about="the requests of a ledger", config=config, since_s=0.0, runs=[run])


def show(played: Sequence[Played], console: Console | None = None) -> None:
    """Print a line for each scenario."""
    console = console or Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    table = Table("scenario", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (
        "target",
        "realised",
        "settles",
        "then within",
        "full",
        "p(success)",
        "succeeded",
        "cost/1000",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in played:
        verdict = MISSED if not one.is_held else one.runs[0].verdict
        style = "red" if verdict == MISSED else None
        table.add_row(one.name, verdict, *_cells(one), style=style)
    console.print(table)
    remarks = {remark for one in played for run in one.runs for remark in _remarks(one, run)}
    for remark in sorted(remarks):
        console.print(remark)


def _cells(one: Played) -> list[str]:
    runs = one.runs
    settled = [run.settling for run in runs if run.settling is not None]
    times = [s.settle_s for s in settled if s.settle_s is not None]
    worst = [s.worst_after for s in settled if s.worst_after is not None]
    success = [run.success_share for run in runs if run.success_share is not None]
    return [
        f"{one.config.target:.4g}",
        f"{median(run.realised for run in runs):.4g}",
        f"{max(times):.0f} s" if settled and len(times) == len(settled) else "—",
        f"±{max(worst):.2g}" if settled and len(worst) == len(settled) else "—",
        f"{median(run.full_share for run in runs):.3f}",
        f"{median(run.quality for run in runs):.3f}",
        f"{median(success):.3f}" if success else "—",
        f"{1000 * median(run.cost_per_request for run in runs):.3f}",
    ]


def _remarks(one: Played, run: PlayedRun) -> list[str]:
    remarks = []
    if run.is_floor_binding:
        wins = "the floor wins" if one.config.winner is Winner.QUALITY_FLOOR else "the budget wins"
        remarks.append(
            f"{one.name}: the budget asks for less quality than the floor {one.config.quality_floor:g}; {wins}"
        )
    if run.is_budget_infeasible:
        remarks.append(f"{one.name}: no λ takes as little as the target {one.config.target:g}")
    if run.is_budget_slack:
        remarks.append(f"{one.name}: the budget is not used up; all that is worth buying is bought")
    return remarks


def as_json(played: Sequence[Played]) -> str:
    """Everything, series included; amounts in the metric's unit."""
    shown = [asdict(one) | {"is_held": one.is_held} for one in played]
    return orjson.dumps({"played": shown}, option=orjson.OPT_INDENT_2).decode()


def report(played: Sequence[Played]) -> str:
    """One HTML page, complete in itself."""
    sections = "\n".join(_section(one) for one in played)
    return _PAGE.replace("SECTIONS", sections)


def _section(one: Played) -> str:
    run, config = one.runs[0], one.config
    # The mean of the first few requests would stretch the scale for all that follow.
    series = [point for point in run.series if point.at >= WINDOW_S or run.settling is None]
    marks = [one.since_s] if one.since_s else []
    target = [(point.at, config.target) for point in series]
    tolerance = TOLERANCE * config.target
    charts = (
        Chart(
            title=f"{config.metric}, the last two minutes" if run.settling else config.metric.value,
            lines=(
                Line(label="target", points=target, style="target"),
                Line(
                    label="realised", points=[(point.at, point.realised) for point in series], style="first"
                ),
            ),
            marks=marks,
            band=(config.target - tolerance, config.target + tolerance),
        ),
        Chart(
            title="λ, the price of compute",
            lines=(
                Line(
                    label="", points=[(point.at, point.price_of_compute) for point in series], style="second"
                ),
            ),
            marks=marks,
        ),
        Chart(
            title="mean probability of success",
            lines=(Line(label="", points=[(point.at, point.quality) for point in series], style="third"),),
            marks=marks,
        ),
    )
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in _remarks(one, run))
    figures = "\n".join(chart.svg() for chart in charts)
    verdict = f'<span class="{"bad" if not one.is_held else "good"}">{run.verdict}</span>'
    return f"<section><h2>{escape(one.name)} {verdict}</h2><p>{escape(one.about)}</p>{remarks}\n{figures}</section>"


def _scenario_run(scenario: Scenario, run: Run) -> PlayedRun:
    trailing = trailing_metric(
        run.seconds, window_s=scenario.window_s, is_per_hour=scenario.config.metric.is_per_hour
    )
    quality = trailing_mean(
        [second.success_probability for second in run.seconds],
        [second.num_requests for second in run.seconds],
        window_s=scenario.window_s,
    )
    points = [
        _point(second, float(amount), float(p))
        for second, amount, p in zip(run.seconds, trailing, quality, strict=True)
    ]
    judged = [second for second in run.seconds if second.at > scenario.since_s]
    verdict = _verdict(scenario, run)
    return _run(scenario.config, judged, verdict, run.settling, points, began=scenario.since_s)


def _verdict(scenario: Scenario, run: Run) -> str:
    """Whether what had to be held was: the floor where it wins against the budget, else the target."""
    config, last = scenario.config, run.seconds[-1].state
    if last.is_floor_binding and config.winner is Winner.QUALITY_FLOOR:
        quality = last.expected_quality or 0.0
        return FLOOR_HELD if quality >= config.quality_floor - FLOOR_SLACK else MISSED
    settle_s = run.settling.settle_s
    return HELD if settle_s is not None and settle_s <= scenario.max_settle_s else MISSED


def _run(
    config: BudgetConfig,
    judged: Sequence[Second],
    verdict: str,
    settling: Settling | None,
    points: Sequence[Point],
    *,
    began: float,
) -> PlayedRun:
    whole, last = total(judged), judged[-1].state
    num_requests = max(1, whole.num_requests)
    return PlayedRun(
        verdict=verdict,
        settling=settling,
        realised=_realised(config, whole, whole.at - began),
        full_share=whole.full_share / num_requests,
        cost_per_request=whole.cost / num_requests,
        quality=_quality(whole),
        success_share=whole.num_successes / whole.num_judged if whole.num_judged else None,
        is_floor_binding=last.is_floor_binding,
        is_budget_infeasible=last.is_budget_infeasible,
        is_budget_slack=last.is_budget_slack,
        series=points[:: max(1, len(points) // MAX_ROWS)],
    )


def _realised(config: BudgetConfig, stretch: Second, span_s: float) -> float:
    if config.metric.is_per_hour:
        return stretch.realised / span_s * 3600
    return stretch.realised / stretch.num_requests if stretch.num_requests else float("nan")


def _quality(stretch: Second) -> float:
    return stretch.success_probability / stretch.num_requests if stretch.num_requests else float("nan")


def _point(second: Second, realised: float, quality: float) -> Point:
    return Point(
        at=second.at, realised=realised, price_of_compute=second.state.price_of_compute, quality=quality
    )


_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tierwise route simulate</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 800px; margin: 2rem auto; padding: 0 1rem; }
:root { color-scheme: light dark; --ink: #222; --grid: #ddd; --a: #0b66c3; --b: #b3541e; --c: #23803f; --t: #888; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --grid: #3a3a3a; --a: #6db3f2; --b: #f0a06a; --c: #7ccf95; --t: #999; }
}
svg { width: 100%; height: auto; margin: 0.3rem 0; }
text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.title { font-weight: 600; }
.grid { stroke: var(--grid); stroke-width: 1; }
.mark { stroke: var(--t); stroke-dasharray: 4 4; }
.band { fill: var(--t); opacity: 0.18; }
.line { fill: none; stroke-width: 1.6; }
.line.target { stroke: var(--t); } .line.first { stroke: var(--a); }
.line.second { stroke: var(--b); } .line.third { stroke: var(--c); }
text.target { fill: var(--t); } text.first { fill: var(--a); }
h2 span { font-size: 0.75em; font-weight: 400; } .good { color: var(--c); } .bad { color: #d33; }
</style></head><body>
<h1>How well the budget is held</h1>
<p>Simulated; the band is the tolerance around the target, the dashed line the moment of the change.</p>
SECTIONS
</body></html>
"""
