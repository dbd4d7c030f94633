"""What a person sees of a run: a bar for each phase with its time to go, and what the policy can do by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from train.report_tables import PROCESS, process_cells

if TYPE_CHECKING:
    from train.trainer import Step


class RunProgress:
    """Entered, it is drawn to the console; where that is no terminal, a line is printed now and then.

    Args:
        console: where.
        tables: of what an evaluation found, from its metrics; `evaluation_tables` where None.
    """

    def __init__(
        self, console: Console, *, tables: Callable[[Mapping[str, Any]], Iterator[Table]] | None = None
    ) -> None:
        self._console = console
        self._tables = tables or evaluation_tables
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[seen]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._evaluation: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.__exit__(kind, error, trace)

    def evaluating(self, when: str, num_items: int) -> None:
        """Show that an evaluation is under way, whose end cannot be foretold."""
        label = f"evaluating {when.replace('_', ' ')}: {num_items} items"
        if self._console.is_terminal:
            self._evaluation = self._bars.add_task(label, total=None, seen="")
        else:
            self._console.print(label)

    def step(self, step: Step) -> None:
        """Show a step, or what an evaluation found."""
        if "evaluation" in step.metrics:
            if self._evaluation is not None:
                self._bars.remove_task(self._evaluation)
                self._evaluation = None
            for table in self._tables(step.metrics):
                self._bars.console.print(table)
            return
        seen = _seen(step.metrics)
        if step.phase not in self._tasks:
            self._tasks[step.phase] = self._bars.add_task(step.phase, total=step.num_steps, seen="")
        self._bars.update(self._tasks[step.phase], completed=step.number, seen=seen)
        if not self._console.is_terminal and step.number % 10 == 0:
            self._console.print(f"{step.phase} {step.number}/{step.num_steps}  {seen}")


def evaluation_tables(metrics: Mapping[str, Any]) -> Iterator[Table]:
    """The scores, and how episodes with tools went where there are any."""
    yield _score_table(metrics)
    by_domain = {row["domain"]: row["process"] for row in metrics["evaluation"]["domains"] if row["process"]}
    if by_domain:
        yield _process_table(by_domain)


def _process_table(by_domain: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line a domain with tools."""
    table = Table(
        title="greedy episodes with tools",
        title_justify="left",
        box=SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("domain", *PROCESS):
        table.add_column(name, justify="left" if name == "domain" else "right")
    for domain, score in by_domain.items():
        table.add_row(domain, *process_cells(score))
    return table


def _score_table(metrics: Mapping[str, Any]) -> Table:
    """A line a domain, and their mean; samples only where any were drawn, for eighty columns are soon full."""
    table = Table(title=f"{metrics['when'].replace('_', ' ')}", title_justify="left")
    is_sampled = "sampled" in metrics
    sampled_names = ("sampled", "") if is_sampled else ()
    for name in ("domain", "items", "greedy", "", *sampled_names, "tokens", "errors"):
        table.add_column(name, justify="left" if name == "domain" else "right")
    for row in metrics["evaluation"]["domains"]:
        table.add_row(
            row["domain"],
            str(row["num_items"]),
            *_score(row["greedy"]),
            *(_score(row["sampled"]) if is_sampled else ()),
            f"{row['mean_tokens']:.1f}",
            str(row["num_errors"] or ""),
        )
    table.add_section()
    sampled = (f"{metrics['sampled']:.3f}", "") if is_sampled else ()
    table.add_row("macro mean", "", f"{metrics['greedy']:.3f}", "", *sampled, "", "")
    return table


def _score(score: dict[str, float] | None) -> tuple[str, str]:
    if score is None:
        return "", ""
    return f"{score['mean']:.3f}", f"{score['low']:.2f}–{score['high']:.2f}"


def _seen(metrics: dict[str, Any] | Any) -> str:
    shown = {
        "score": metrics.get("score"),
        "loss": metrics.get("cross_entropy_loss"),
        "divergence": metrics.get("divergence"),
        "entropy": metrics.get("entropy") or None,
        "norm": metrics.get("grad_norm"),
    }
    told = [f"{name} {value:.3f}" for name, value in shown.items() if value is not None]
    return "  ".join([*told, f"{metrics['seconds']:.1f} s a step"])
