"""What `tierwise distill draft train` shows of a head's acceptance: domains where they fit a screen, else families."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from distill.calibration import GENERAL
from distill.commands.student_views import MAX_DOMAINS
from train.domains import catalog


def acceptance_table(path: Path) -> Table:
    """Of an `acceptance.json`; the last line is of all."""
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["acceptance"]
    is_short = len(rows) <= MAX_DOMAINS
    parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        parts[row["domain"] if is_short else _family(row["domain"]).replace("_", " ")].append(row)
    title = f"acceptance, held-out items: Σ min(p, q) by place of a round; every domain: {path.name}"
    table = Table(title=title, title_justify="left")
    names = ("domain" if is_short else "family", "texts", "tokens a round")
    for name in (*names, *(str(place + 1) for place in range(len(rows[0]["places"])))):
        table.add_column(name, justify="left" if name == names[0] else "right")
    for name, some in parts.items():
        table.add_row(name, *_cells(some))
    table.add_section()
    table.add_row("all", *_cells(rows))
    return table


def _cells(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Texts, tokens by rounds, and the mean over tokens at each place."""
    num_tokens = sum(row["num_tokens"] for row in rows)
    a_round = num_tokens / sum(row["num_rounds"] for row in rows)
    places = [
        sum(row["num_tokens"] * row["places"][place]["expected"] for row in rows) / num_tokens
        for place in range(len(rows[0]["places"]))
    ]
    return [str(sum(row["num_texts"] for row in rows)), f"{a_round:.2f}", *(f"{each:.2f}" for each in places)]


def _family(domain: str) -> str:
    return domain if domain == GENERAL else catalog.get(domain).family
