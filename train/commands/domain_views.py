"""How domains, items and audits look on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from train.domains import audit as gate
from train.domains.base import Domain, Item
from train.transcript import Transcript


def print_domains(chosen: Sequence[Domain]) -> None:
    """One line for each, families together, and how many may train."""
    table = Table(box=None, pad_edge=False)
    for column in ("family", "domain", "levels", "may train", "baseline", "what is asked"):
        table.add_column(column, no_wrap=column != "what is asked")
    for domain in sorted(chosen, key=lambda one: (one.family, one.name)):
        record = gate.records().get(domain.name)
        refusal = gate.refusal(domain)
        table.add_row(
            domain.family,
            domain.name,
            str(domain.num_levels),
            "[green]yes[/]" if not refusal else "[red]no[/]",
            f"{record.baseline:.2f}" if record is not None else "–",
            escape(refusal or domain.description)[:160],
        )
    console = Console()
    console.print(table)
    num_passed = sum(not gate.refusal(domain) for domain in chosen)
    console.print(f"\n{len(chosen)} domains, {num_passed} may train")


def print_domain(domain: Domain) -> None:
    """Everything about one."""
    console = Console()
    console.print(
        f"[bold]{domain.name}[/]  {domain.family}, {domain.num_levels} levels\n{escape(domain.description)}"
    )
    record = gate.records().get(domain.name)
    refusal = gate.refusal(domain)
    console.print("may train: yes" if not refusal else f"[red]may not train:[/] {escape(refusal)}")
    if record is not None:
        print_audit([record])


def print_items(domain: Domain, items: Sequence[Item]) -> None:
    """Prompts, and what passes."""
    console = Console()
    for item in items:
        console.rule(f"{item.id}  ≤ {item.max_answer_tokens} tokens", align="left")
        console.print(escape(item.prompt))
        if item.environment is not None:
            console.print(
                f"[dim]tools: {', '.join(item.environment.tools)}; {item.environment.max_calls} calls[/]"
            )
        console.print(f"[green]{escape(_spoken(domain.reference(item)))}[/]")


def print_audit(made: Sequence[gate.Record]) -> None:
    """What audits found: what the best constant earns, how many right, wrong and adversarial answers were accepted of
    those given, and why one failed."""
    table = Table(box=None, pad_edge=False)
    for column in ("domain", "items", "baseline", "right", "wrong", "adversarial", ""):
        table.add_column(column, no_wrap=True)
    for record in made:
        table.add_row(
            record.domain,
            str(record.num_items),
            f"{record.baseline:.3f}",
            *(_tally(tally) for tally in (record.right, record.wrong, record.adversarial)),
            "[green]passed[/]" if record.is_passed else "[red]quarantined[/]",
        )
    console = Console()
    console.print(table)
    for record in made:
        for failure in record.failures:
            console.print(f"[red]{record.domain}[/] {failure.probe}: {escape(failure.detail)}")
    console.print(
        f"\n{sum(record.is_passed for record in made)} of {len(made)} passed; accepted / given above"
    )


@contextmanager
def audit_progress(num_domains: int, *, is_shown: bool) -> Iterator[Callable[[gate.Record], None]]:
    """A bar with the time that remains, on standard error; the callable takes each record as it is made."""
    columns = (
        TextColumn("auditing {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not is_shown) as progress:
        task = progress.add_task("", total=num_domains)
        yield lambda record: progress.update(task, advance=1, description=record.domain)


def _tally(tally: gate.Tally) -> str:
    return f"{tally.num_accepted}/{tally.num_answers}"


def _spoken(transcript: Transcript) -> str:
    lines = []
    for message in transcript.messages:
        lines += [f"{call.name} {call.arguments}" for call in message.calls]
        if message.text:
            lines.append(f"→ {message.text}" if message.role == "tool" else message.text)
    return "\n".join(lines)
