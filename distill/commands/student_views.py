"""What `tierwise distill student` shows of evaluations.

Every domain where they fit a screen; else families and the domains that moved most, and all of them in a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from distill.retention import Retention
from train.commands.run_progress import evaluation_tables
from train.domains import catalog

MAX_DOMAINS: Final = 24
"""That are shown a line each."""
NUM_MOVED: Final = 8
SCORES_NAME: Final = "scores.txt"
"""In a run's directory: every domain of the last evaluation."""
RETENTION_NAME: Final = "retention.txt"
"""There: every domain of the student beside its teacher."""
_WIDTH: Final = 120
"""Of a file's lines."""


@dataclass
class EvaluationViews:
    """Tables of one evaluation after another; each is held against the student's one before.

    Args:
        out: the run's directory.
        teacher: when the teacher's evaluation is, which is no step of the student's.
        is_whole: shows every domain, however many.
    """

    out: Path
    teacher: str
    is_whole: bool
    _before: dict[str, float] = field(default_factory=dict, init=False)

    def __call__(self, metrics: Mapping[str, Any]) -> Iterator[Table]:
        """Of an evaluation's metrics."""
        rows = metrics["evaluation"]["domains"]
        if self.is_whole or len(rows) <= MAX_DOMAINS:
            yield from evaluation_tables(metrics)
            return
        write_tables(self.out / SCORES_NAME, evaluation_tables(metrics))
        now = {row["domain"]: row["greedy"]["mean"] for row in rows}
        before = {} if metrics["when"] == self.teacher else self._before
        when = metrics["when"].replace("_", " ")
        yield _by_family(f"{when}, greedy; every domain: {SCORES_NAME}", ("before", "now"), before, now)
        if before:
            yield _moved("moved most since", ("before", "now"), before, now)
        if metrics["when"] != self.teacher:
            self._before = now


def retention_tables(rows: Sequence[Retention], out: Path, *, is_whole: bool) -> Iterator[Table]:
    """The student beside its teacher.

    Args:
        rows: of `retention`, the macro means last.
        out: the run's directory, for what is too long for a screen.
        is_whole: shows every domain, however many.
    """
    table = retention_table(rows)
    if is_whole or len(rows) - 1 <= MAX_DOMAINS:
        yield table
        return
    write_tables(out / RETENTION_NAME, [table])
    *domains, total = rows
    teacher = {row.domain: row.teacher.mean for row in domains}
    student = {row.domain: row.student.mean for row in domains}
    kept = "" if total.share is None else f", {total.share:.0%} of it"
    title = f"what the student kept of its teacher, greedy{kept}; every domain: {RETENTION_NAME}"
    yield _by_family(title, ("teacher", "student"), teacher, student)
    yield _moved("furthest from the teacher", ("teacher", "student"), teacher, student)


def write_tables(path: Path, tables: Iterator[Table] | Sequence[Table]) -> None:
    """As text, one below the other."""
    with path.open("w", encoding="utf-8") as file:
        console = Console(file=file, width=_WIDTH)
        for table in tables:
            console.print(table)


def retention_table(rows: Sequence[Retention]) -> Table:
    """A line a domain."""
    table = Table(title="what the student kept of its teacher, greedy", title_justify="left")
    for name in ("domain", "items", "teacher", "student", "kept"):
        table.add_column(name, justify="left" if name == "domain" else "right")
    for row in rows:
        table.add_row(row.domain, str(row.num_items), *cells(row))
    return table


def cells(row: Retention) -> tuple[str, ...]:
    """The teacher's score, the student's, and the share that is kept."""
    scores = [f"{each.mean:.3f} [{each.low:.2f}, {each.high:.2f}]" for each in (row.teacher, row.student)]
    return (*(each.replace("[", "\\[") for each in scores), "" if row.share is None else f"{row.share:.0%}")


def _by_family(
    title: str, names: tuple[str, str], before: Mapping[str, float], now: Mapping[str, float]
) -> Table:
    """Mean scores of each family's domains, and the macro mean of all."""
    members: dict[str, list[str]] = defaultdict(list)
    for domain in now:
        members[catalog.get(domain).family].append(domain)
    table = Table(title=title, title_justify="left")
    for name in ("family", "domains", *(names if before else names[1:])):
        table.add_column(name, justify="left" if name == "family" else "right")
    for family, domains in members.items():
        table.add_row(family.replace("_", " "), str(len(domains)), *_means(domains, before, now))
    table.add_section()
    table.add_row("macro mean", str(len(now)), *_means(list(now), before, now))
    return table


def _means(domains: Sequence[str], before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    sides = (before, now) if before else (now,)
    return [f"{fmean(side[domain] for domain in domains):.3f}" for side in sides]


def _moved(
    title: str, names: tuple[str, str], before: Mapping[str, float], now: Mapping[str, float]
) -> Table:
    """The domains whose scores differ most, the greatest difference first."""
    table = Table(title=title, title_justify="left")
    for name in ("domain", *names, ""):
        table.add_column(name, justify="left" if name == "domain" else "right")
    apart = {domain: score - before[domain] for domain, score in now.items() if score != before[domain]}
    for domain in sorted(apart, key=lambda domain: -abs(apart[domain]))[:NUM_MOVED]:
        table.add_row(domain, f"{before[domain]:.3f}", f"{now[domain]:.3f}", f"{apart[domain]:+.3f}")
    return table
