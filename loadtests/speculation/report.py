"""The findings as a table at a terminal, as Markdown, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from loadtests.machine import Machine
from loadtests.quantiles import Estimate
from loadtests.speculation.drafts import Draft
from loadtests.speculation.findings import Pair, Row, alike_rate, paying
from loadtests.tuning.evidence import shown

_HEADINGS: Final = (
    "draft", "domain", "prompts", "same", "ties", "defects", "accepted", "of all tokens",
    "whole answers", "after the first token", "predicted", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finished run."""

    machine: Machine
    engine: str
    model: str
    drafts: Sequence[Draft]
    rows: Sequence[Row]
    pairs: Mapping[str, Sequence[Pair]]
    max_tokens: int
    num_rounds: int
    max_gap: float

    @property
    def headline(self) -> str:
        """What was measured, on one line."""
        return (
            f"{self.model} on {self.engine}, one stream, temperature 0, answers up to {self.max_tokens} tokens, "
            f"{self.num_rounds} rounds; × is how many times as fast"
        )

    @property
    def conclusion(self) -> str:
        """Which drafts pay where, on one line."""
        where = paying(self.rows)
        told = [f"{name} pays in {', '.join(domains)}" for name, domains in where.items()]
        refused = [draft.name for draft in self.drafts if draft.name not in where]
        return "; ".join([*told, *([f"refused: {', '.join(refused)}"] if refused else [])])


def render(report: Report) -> Group:
    """For a terminal."""
    table = Table()
    for index, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="left" if index < 2 or heading == "verdict" else "right")
    last = None
    for row in report.rows:
        if last not in (None, row.draft):
            table.add_section()
        last = row.draft
        table.add_row(*_cells(row))
    machine = Text(report.machine.line(), style="dim")
    return Group(machine, Text(report.headline), table, Text(report.conclusion, style="bold"))


def markdown(report: Report) -> str:
    """For a log."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *map(_cells, report.rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{report.headline}.\n\n{table}\n\n{report.conclusion}.\n\n{report.machine.line()}"


def as_json(report: Report) -> dict[str, Any]:
    """For programs: every figure, and where answers differ."""
    return {
        "machine": asdict(report.machine),
        "engine": report.engine,
        "model": report.model,
        "num_rounds": report.num_rounds,
        "max_tokens": report.max_tokens,
        "max_gap": report.max_gap,
        "drafts": {each.name: {"type": each.kind, **each.members} for each in report.drafts},
        "rows": [asdict(row) for row in report.rows],
        "differences": [
            {"draft": name, "prompt": place, "domain": pair.domain, **asdict(pair.difference)}
            for name, pairs in report.pairs.items()
            for place, pair in enumerate(pairs)
            if pair.difference is not None
        ],
        "acceptance": [entry for draft in report.drafts for entry in _acceptance(draft, report.rows)],
        "pays": paying(report.rows),
    }


def _acceptance(draft: Draft, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """As `distill cost-model --acceptance` reads it, with one chance for all places once something is proposed."""
    found = []
    for row in rows:
        if row.draft == draft.name:
            rate = alike_rate(row.acceptance or 0.0, draft.max_tokens)
            places = [
                {
                    "conditional": rate * (row.proposed_share if place == 0 else 1),
                    "proposed_share": row.proposed_share,
                }
                for place in range(draft.max_tokens)
            ]
            found.append({"draft": draft.name, "domain": row.domain, "places": places})
    return found


def _cells(row: Row) -> tuple[str, ...]:
    ties = str(row.num_ties) + ("" if row.max_tie_gap is None else f" (≤ {row.max_tie_gap:.3f} nats)")
    return (
        row.draft,
        row.domain,
        str(row.num_prompts),
        str(row.num_same),
        ties,
        str(row.num_defects),
        "–" if row.acceptance is None else f"{row.acceptance:.0%}",
        f"{row.accepted_share:.0%}",
        _ratio(row.request),
        _ratio(row.decode),
        "–" if row.predicted is None else f"× {row.predicted:.2f}",
        row.verdict.value,
    )


def _ratio(ratio: Estimate | None) -> str:
    return "–" if ratio is None else shown(ratio)
