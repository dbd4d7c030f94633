"""How an answer to "what if" is shown to a person."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isclose
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from router.offer import Metric
from serving.commands.ledger_views import console

Told = Mapping[str, Any]

OFF_TARGET: Final = 0.01
"""Relative to the target; within it nothing is said."""


def show(told: Told) -> None:
    """A line about the log, and a table for each policy."""
    out = console()
    out.print(Text(_about(told), style="dim"))
    for one in told["answers"]:
        out.print()
        out.print(Text(_title(told, one), style="bold"))
        out.print(_table(told, one))
        if (told_of_target := _out_of_reach(one)) is not None:
            out.print(Text(f"! {told_of_target}", style="yellow"))
        for remedy, names in _remedies(told, one).items():
            out.print(Text(f"! {' and '.join(names)}: not enough support: {remedy}", style="yellow"))


def _about(told: Told) -> str:
    began, ended = (f"{datetime.fromtimestamp(told[name]):%Y-%m-%d %H:%M}" for name in ("began", "ended"))
    looked_at = (
        f"{told['num_looked_at']:,} of {told['num_decided']:,}"
        if _is_part(told)
        else f"{told['num_decided']:,}"
    )
    notes = [f"{looked_at} requests from {began} to {ended}"]
    if told["is_sample"]:
        notes.append("an even sample")
    if told["num_unusable"]:
        notes.append(
            f"{told['num_unusable']:,} left out, which an earlier version wrote without their chances"
        )
    notes.append(f"exploration share {told['exploration_share']:g}")
    return "; ".join(notes)


def _is_part(told: Told) -> bool:
    return bool(told["num_looked_at"] != told["num_decided"])


def _title(told: Told, one: Told) -> str:
    wanted = (
        f"{told['metric']} held at {one['target']:g}"
        if one["target"] is not None
        else f"λ of {one['price_of_compute']:g} on {told['metric']}"
    )
    return f"{wanted}: {one['moved_share']:.1%} of requests would have gone elsewhere"


def _out_of_reach(one: Told) -> str | None:
    """What stands between a target and what would be taken, where something does."""
    target, expected = one["target"], one["expected"]
    if target is None or isclose(expected, target, rel_tol=OFF_TARGET):
        return None
    if expected < target:
        return f"{expected:.4g} would be expected to be taken: at times all that is worth buying takes less"
    return f"{expected:.4g} would be expected to be taken: at times no λ takes as little as the target"


def _table(told: Told, one: Told) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for heading in ("now", "then", "difference", "outcomes", "of weight"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, label in _labels(told).items():
        quantity = one[name]
        cells = [_estimate(quantity[side], sign=side == "change") for side in ("now", "then", "change")]
        table.add_row(label, *cells, f"{quantity['num_outcomes']:,}", f"{quantity['num_supporting']:,.0f}")
    for arm, share in one["shares"]["then"].items():
        now = one["shares"]["now"][arm]
        table.add_row(f"to {arm}", f"{now:.1%}", f"{share:.1%}", f"{share - now:+.1%}", "", "")
    return table


def _labels(told: Told) -> dict[str, str]:
    """What each row is called; what the metric counts has none of its own where it is the cost of a request."""
    labels = {"success": "success", "cost": "cost of a request", "taken": told["metric"]}
    if told["metric"] == Metric.COST_PER_REQUEST:
        del labels["taken"]
    return labels


def _remedies(told: Told, one: Told) -> dict[str, list[str]]:
    """What would mend a lack, and what lacks it."""
    remedies: dict[str, list[str]] = {}
    for name, label in _labels(told).items():
        if one[name]["remedy"] is not None:
            remedies.setdefault(one[name]["remedy"], []).append(label)
    return remedies


def _estimate(estimate: Told | None, *, sign: bool) -> str:
    if estimate is None:
        return "—"
    value, low, high = (f"{estimate[name]:{'+' if sign else ''}.4g}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
