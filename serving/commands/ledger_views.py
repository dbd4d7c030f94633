"""How the ledger is shown: tables for a person, JSON for a program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from serving.commands.ledger_export import Exported
from serving.ledger.query import LedgerRequest
from serving.ledger.replay import Replay
from serving.ledger.summary import Group, Summary
from serving.telemetry.lines import printable

PIPE_WIDTH = 180
"""Columns of a table that goes into a pipe, where there is no terminal to ask."""

# heading: (width, justification); fixed, so that the lines of --follow stand below each other
_TAIL_COLUMNS: dict[str, tuple[int, Literal["left", "right"]]] = {
    "time": (8, "left"),
    "status": (6, "right"),
    "endpoint": (11, "left"),
    "model": (16, "left"),
    "arm": (12, "left"),
    "reason": (19, "left"),
    "ttft": (8, "right"),
    "total": (8, "right"),
    "tokens": (11, "right"),
    "cost": (10, "right"),
    "request": (28, "left"),
}
_TAIL_LEFT_OUT = ("request", "endpoint", "cost", "ttft", "tokens", "reason")
"""What a narrow terminal does without, first things first."""

_SUMMARY_LEFT_OUT = ("cached", "escalated", "ttft p95", "retries", "in", "out", "share", "ttft p50", "errors")


def console() -> Console:
    """Where tables go."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def print_tail(requests: Sequence[LedgerRequest], *, has_heading: bool) -> None:
    """One line a request."""
    rows = [_tail_cells(request) for request in requests]

    def build(left_out: Collection[str]) -> Table:
        table = Table(box=None, show_header=has_heading, pad_edge=False, header_style="bold")
        for heading, (width, justify) in _TAIL_COLUMNS.items():
            if heading not in left_out:
                table.add_column(heading, width=width, justify=justify, no_wrap=True, overflow="ellipsis")
        for request, cells in zip(requests, rows, strict=True):
            style = "red" if request.status >= 500 else "yellow" if request.status >= 400 else None
            table.add_row(*(Text(cells[name]) for name in cells if name not in left_out), style=style)
        return table

    _print_fitting(build, _TAIL_LEFT_OUT)


def _tail_cells(request: LedgerRequest) -> dict[str, str]:
    attempts = f" ×{request.num_attempts}" if request.num_attempts > 1 else ""
    return {
        "time": f"{datetime.fromtimestamp(request.created_at):%H:%M:%S}",
        "status": str(request.status),
        "endpoint": request.endpoint,
        "model": printable(request.model),
        "arm": (request.arm or "—") + attempts,
        "reason": printable(request.error_code or request.reason or "—"),
        "ttft": _seconds(request.ttft_s),
        "total": _seconds(request.total_s),
        "tokens": f"{request.prompt_tokens or 0}+{request.completion_tokens or 0}",
        "cost": f"{request.cost:.6f}",
        "request": printable(request.request_id),
    }


def print_summary(summary: Summary) -> None:
    """What was summed up, a line for each group, the total below."""
    if summary.total is None:
        print(f"no requests{_since(summary)}")
        return
    total = _summary_cells(summary.total) | {"tier": "total", "arm": "", "reason": ""}
    rows = [_summary_cells(group) for group in summary.groups]

    def build(left_out: Collection[str]) -> Table:
        table = Table(
            box=box.SIMPLE_HEAD, show_footer=True, header_style="bold", footer_style="bold", pad_edge=False
        )
        for heading, footer in total.items():
            if heading not in left_out:
                justify: Literal["left", "right"] = (
                    "left" if heading in {"tier", "arm", "reason"} else "right"
                )
                table.add_column(heading, footer=footer, justify=justify, no_wrap=True)
        for cells in rows:
            table.add_row(*(Text(cells[name]) for name in cells if name not in left_out))
        return table

    print(f"requests{_since(summary)}")
    left_out = _print_fitting(build, _SUMMARY_LEFT_OUT)
    print(_attempts(summary.total))
    if left_out:
        print(f"left out for width: {', '.join(left_out)}; --json has everything")


def _summary_cells(group: Group) -> dict[str, str]:
    return {
        "tier": group.tier or "—",
        "arm": group.arm or "—",
        "reason": group.reason or "—",
        "requests": f"{group.num_requests:,}",
        "share": f"{group.share:.1%}",
        "in": f"{group.prompt_tokens:,}",
        "cached": f"{group.cached_tokens:,}",
        "out": f"{group.completion_tokens:,}",
        "cost": f"{group.cost:.6f}",
        "total p50": _seconds(group.total_p50_s),
        "total p95": _seconds(group.total_p95_s),
        "ttft p50": _seconds(group.ttft_p50_s),
        "ttft p95": _seconds(group.ttft_p95_s),
        "errors": f"{group.num_errors:,}",
        "retries": f"{group.num_retries:,}",
        "escalated": f"{group.num_escalated:,}",
    }


def _print_fitting(build: Callable[[Collection[str]], Table], dispensable: Sequence[str]) -> Sequence[str]:
    """Print the table without as many dispensable columns as it takes to fit; return those left out."""
    out = console()
    unbounded = out.options.update(max_width=10_000)
    for number in range(len(dispensable) + 1):
        table = build(dispensable[:number])
        if Measurement.get(out, unbounded, table).maximum <= out.width:
            break
    out.print(table)
    return dispensable[:number]


def _attempts(group: Group) -> str:
    counts = [f"{count:,} {outcome}" for outcome, count in group.outcomes.items() if count]
    return "attempts: " + (", ".join(counts) or "none")


def _since(summary: Summary) -> str:
    if summary.since is None:
        return " in the whole ledger"
    return f" since {datetime.fromtimestamp(summary.since).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def request_json(request: LedgerRequest) -> str:
    """One JSON object on one line, with `time` in UTC for those who read it."""
    time = datetime.fromtimestamp(request.created_at, UTC).isoformat(timespec="milliseconds")
    return _json({"time": time, **dataclasses.asdict(request)})


def summary_json(summary: Summary) -> str:
    """One JSON object."""
    return _json(dataclasses.asdict(summary))


def export_json(written: Exported) -> str:
    """One JSON object."""
    return _json(dataclasses.asdict(written))


def _json(value: dict[str, Any]) -> str:
    return orjson.dumps(value).decode()


def _seconds(value: float | None) -> str:
    """Three figures, in the unit that reads best."""
    if value is None:
        return "—"
    if value < 0.9995:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:,.1f} s"


def replay_json(found: Replay) -> str:
    """One JSON object."""
    return orjson.dumps(dataclasses.asdict(found)).decode()


def print_replay(found: Replay) -> None:
    """What came out as it did, what did not, and what cannot be said."""
    out = console()
    out.print(f"{found.num_same:,} decisions came out as they did")
    for version, num in found.artifacts.items():
        out.print(Text(f"  {num:,} on forecasts of {printable(version)}", style="dim"))
    if found.num_other:
        named = ", ".join(printable(request_id) for request_id in found.others)
        out.print(Text(f"! {found.num_other:,} came out otherwise: {named}", style="red"))
    for version, num in found.by_other_policies.items():
        told = f"! {num:,} were decided by policy {printable(version)}, which is not this program's: not replayed"
        out.print(Text(told, style="yellow"))
    if found.num_incomplete:
        told = f"! of {found.num_incomplete:,} an earlier version kept too little: not replayed"
        out.print(Text(told, style="yellow"))
