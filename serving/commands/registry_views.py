"""How the registry is shown: tables for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from serving.registry.aliases import Alias
from serving.registry.artifact import Artifact
from serving.registry.errors import CorruptArtifactError
from serving.registry.reference import ArtifactReference

_WIDTH_IN_A_PIPE = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A version, what could be read of it, and the aliases that point at it."""

    reference: ArtifactReference
    artifact: Artifact | CorruptArtifactError
    aliases: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The manifest with reference, directory and aliases; `damage` instead where it cannot be read."""
        shown: dict[str, Any] = {"reference": str(self.reference), "aliases": list(self.aliases)}
        if isinstance(self.artifact, CorruptArtifactError):
            return shown | {"damage": str(self.artifact)}
        directory = str(self.artifact.directory)
        return shown | {"directory": directory} | self.artifact.manifest.model_dump(mode="json")


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_artifacts(rows: Sequence[Row]) -> None:
    """`list`."""
    if not rows:
        print("nothing is published yet; `tierwise up` brings the first model in")
        return
    table = _table("reference", "kind", "format", "size", "published", "aliases")
    for row in rows:
        if isinstance(row.artifact, CorruptArtifactError):
            cells = ["", "damaged", "", ""]
        else:
            manifest = row.artifact.manifest
            sort = f"{manifest.format} {manifest.quantization or ''}".strip()
            cells = [manifest.kind, sort, _size(manifest.size_bytes), f"{manifest.created_at:%Y-%m-%d %H:%M}"]
        table.add_row(*map(escape, [str(row.reference), *cells, " ".join(row.aliases)]))
    _print(table)


def print_artifact(artifact: Artifact, aliases: Sequence[str]) -> None:
    """`show`."""
    manifest = artifact.manifest
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    facts = {
        "reference": str(manifest.reference),
        "aliases": " ".join(aliases),
        "kind": manifest.kind,
        "format": f"{manifest.format} {manifest.quantization or ''}".strip(),
        "licence": manifest.licence,
        "published": f"{manifest.created_at:%Y-%m-%d %H:%M:%S %Z}",
        "parents": ", ".join(f"{parent.reference} ({parent.role})" for parent in manifest.parents),
        "recipe": json.dumps(manifest.recipe, ensure_ascii=False) if manifest.recipe else "",
        "data": manifest.data_sha256 or "",
        "tokenizer": manifest.tokenizer_sha256 or "",
        "metrics": ", ".join(
            f"{domain}.{metric}={value:g}"
            for domain, metrics in manifest.metrics.items()
            for metric, value in metrics.items()
        ),
        "directory": str(artifact.directory),
    }
    for fact, value in facts.items():
        if value:
            table.add_row(fact, escape(value))
    for file in manifest.files:
        table.add_row("file", escape(f"{file.path}  {_size(file.size_bytes)}  {file.sha256}"))
    _print(table)


def print_aliases(aliases: Mapping[str, Alias]) -> None:
    """`alias`."""
    if not aliases:
        print("no alias exists yet; `tierwise up` makes the first")
        return
    table = _table("alias", "points at", "since", "by", "reason")
    for text, alias in aliases.items():
        last = alias.changes[-1]
        target = str(alias.target) if alias.target else "nothing (removed)"
        table.add_row(*map(escape, [text, target, f"{last.at:%Y-%m-%d %H:%M}", last.by, last.reason]))
    _print(table)


def print_history(aliases: Mapping[str, Alias]) -> None:
    """`alias --history`, oldest first."""
    table = _table("alias", "when", "what", "from", "to", "by", "reason")
    for text, alias in aliases.items():
        for change in alias.changes:
            moved = [str(change.previous or ""), str(change.target or "")]
            cells = [text, f"{change.at:%Y-%m-%d %H:%M:%S}", change.action, *moved, change.by, change.reason]
            table.add_row(*map(escape, cells))
    _print(table)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_IN_A_PIPE)
    console.print(table, highlight=False)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
