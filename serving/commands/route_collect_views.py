"""How outcomes are shown: a table by domain and arm with what the arms share, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from rich import box
from rich.markup import escape
from rich.table import Table

from router.outcomes import Cell, OutcomeRow, by_domain, cell, joint
from serving.commands.ledger_views import console


def print_outcomes(rows: Sequence[OutcomeRow]) -> None:
    """A line for each domain and arm, one for each arm in all, and on how many prompts which arms were right."""
    if not rows:
        print("no outcomes")
        return
    arms = _arms(rows)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for heading in ("domain", "arm"):
        table.add_column(heading)
    for heading in ("n", "success", "95 %", "tokens", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for (domain, arm), one in by_domain(rows).items():
        table.add_row(escape(domain), escape(arm), *_cells(one))
    table.add_section()
    for arm in arms:
        table.add_row(
            "all", escape(arm), *_cells(cell([row for row in rows if row.arm == arm])), style="bold"
        )
    out = console()
    out.print(table)
    if len(arms) > 1:
        counts = joint(rows, arms)
        told = [f"{count} {_right(right, arms)}" for right, count in counts.items()]
        out.print(escape(f"of {sum(counts.values())} prompts that every arm answered: {', '.join(told)}"))


def summary_json(
    rows: Sequence[OutcomeRow], *, num_prompts: int, num_new: int, failures: Sequence[str]
) -> str:
    """One JSON object: the same, and how the collection went."""
    arms = _arms(rows)
    return orjson.dumps(
        {
            "num_prompts": num_prompts,
            "num_new": num_new,
            "num_failed": len(failures),
            "failures": list(dict.fromkeys(failures)),
            "arms": {arm: _members(cell([row for row in rows if row.arm == arm])) for arm in arms},
            "domains": [
                {"domain": domain, "arm": arm, **_members(one)}
                for (domain, arm), one in by_domain(rows).items()
            ],
            "joint": [{"right": list(right), "n": count} for right, count in joint(rows, arms).items()],
        }
    ).decode()


def _arms(rows: Sequence[OutcomeRow]) -> list[str]:
    return sorted({row.arm for row in rows})


def _right(right: Sequence[str], arms: Sequence[str]) -> str:
    if not right:
        return "none right"
    return "all right" if len(right) == len(arms) else f"only {' and '.join(right)}"


def _cells(one: Cell) -> tuple[str, ...]:
    low, high = one.success.interval
    return (
        f"{one.success.num_all:,}",
        f"{one.success.value:.1%}",
        f"{low:.1%} – {high:.1%}",
        f"{one.mean_output_tokens:.1f}",
        f"{one.cost:.6f}",
    )


def _members(one: Cell) -> dict[str, Any]:
    low, high = one.success.interval
    return {
        "n": one.success.num_all,
        "success": one.success.value,
        "low": low,
        "high": high,
        "mean_output_tokens": one.mean_output_tokens,
        "cost": one.cost,
    }
