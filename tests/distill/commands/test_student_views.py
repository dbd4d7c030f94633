"""Evaluations of a student: whole where they fit a screen, else by family, with every domain in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from distill.commands.student_views import (
    MAX_DOMAINS,
    RETENTION_NAME,
    SCORES_NAME,
    EvaluationViews,
    retention_tables,
)
from distill.retention import Retention
from train.domains import catalog
from train.evaluate import Score

NAMES = list(catalog.domains())[: MAX_DOMAINS + 6]


def metrics(when: str, scores: dict[str, float]) -> dict[str, Any]:
    rows = [
        {
            "domain": name,
            "num_items": 4,
            "greedy": {"mean": score, "low": 0.0, "high": 1.0},
            "sampled": None,
            "mean_tokens": 5.0,
            "num_errors": 0,
            "process": None,
        }
        for name, score in scores.items()
    ]
    mean = sum(scores.values()) / len(scores)
    return {"when": when, "greedy": mean, "evaluation": {"domains": rows}}


def text(tables: list[Table]) -> str:
    console = Console(width=80, record=True)
    for table in tables:
        console.print(table)
    return console.export_text()


def test_few_domains_are_shown_a_line_each(tmp_path: Path) -> None:
    """By their whole names in eighty columns; nothing is written."""
    views = EvaluationViews(tmp_path, "teacher", is_whole=False)
    said = text(list(views(metrics("cut", dict.fromkeys(NAMES[:MAX_DOMAINS], 0.5)))))
    assert all(name in said for name in NAMES[:MAX_DOMAINS])
    assert list(tmp_path.iterdir()) == []


def test_many_are_shown_by_family(tmp_path: Path) -> None:
    """With the macro mean; what moved since the student's evaluation before, not the teacher's; all in the file."""
    views = EvaluationViews(tmp_path, "teacher", is_whole=False)
    teacher = text(list(views(metrics("teacher", dict.fromkeys(NAMES, 0.9)))))
    first = text(list(views(metrics("cut", dict.fromkeys(NAMES, 0.2)))))
    moved = {**dict.fromkeys(NAMES, 0.2), NAMES[3]: 0.8, NAMES[4]: 0.1}
    second = text(list(views(metrics("after_kd", moved))))
    assert "macro mean" in teacher
    assert "moved most" not in teacher + first
    lines = [line for line in second.splitlines() if NAMES[3] in line or NAMES[4] in line]
    assert ["+0.600" in lines[0], "-0.100" in lines[1]] == [True, True]
    mean = sum(moved.values()) / len(moved)
    assert [f"{mean:.3f}" in line for line in second.splitlines() if "macro mean" in line] == [True]
    families = {catalog.get(name).family.replace("_", " ") for name in NAMES}
    assert all(family in second for family in families)
    assert NAMES[0] not in second
    kept = (tmp_path / SCORES_NAME).read_text()
    assert all(name in kept for name in NAMES)


def test_all_are_shown_where_that_is_asked(tmp_path: Path) -> None:
    """`--verbose`."""
    views = EvaluationViews(tmp_path, "teacher", is_whole=True)
    assert all(name in text(list(views(metrics("cut", dict.fromkeys(NAMES, 0.5))))) for name in NAMES)


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_kept_of_many(tmp_path: Path, *, is_whole: bool) -> None:
    """Every domain, or families and those furthest from the teacher, and the share of all in the title."""
    full, half = Score(0.8, 0.7, 0.9), Score(0.4, 0.3, 0.5)
    rows = [Retention(name, 4, full, half if name == NAMES[1] else full) for name in NAMES]
    tables = list(retention_tables([*rows, Retention("all", 120, full, half)], tmp_path, is_whole=is_whole))
    said = text(tables)
    assert NAMES[1] in said
    assert (NAMES[2] in said) == is_whole
    assert (tmp_path / RETENTION_NAME).exists() != is_whole
    if not is_whole:
        assert "50% of it" in " ".join(said.split())
        assert "-0.400" in said
        assert NAMES[2] in (tmp_path / RETENTION_NAME).read_text()
