"""What `tierwise route fit` prints: how far the probabilities of each arm hold, and where the artifact is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router.artifact_header import ArmFigures, ArtifactHeader


def summary_json(header: ArtifactHeader, *, kept: Sequence[str], size_bytes: int) -> str:
    """The figures as JSON, without the reference distributions."""
    members: dict[str, Any] = asdict(header)
    for name in ("feature_references", "score_references"):
        del members[name]
    return json.dumps(members | {"kept": list(kept), "size_bytes": size_bytes}, ensure_ascii=False, indent=2)


def print_header(header: ArtifactHeader, *, kept: Sequence[str], size_bytes: int) -> None:
    """The figures as tables."""
    console = Console()
    console.print(_table("held out, no near-duplicates on both sides", header.figures))
    console.print(_ranking(header, ""), style="dim", highlight=False)
    if header.new_domain_figures:
        console.print(_table("held out, no domain on both sides", header.new_domain_figures))
        console.print(_ranking(header, "new_domain_"), style="dim", highlight=False)
    console.print(
        f"{header.version}: {header.num_prompts} prompts, {header.num_groups} without near-duplicates; "
        f"{size_bytes / 1000:.0f} kB",
        highlight=False,
    )
    for place in kept or ("nowhere: name --out or --publish to keep it",):
        console.print(f"kept: {escape(place)}", highlight=False, soft_wrap=True)


def _ranking(header: ArtifactHeader, prefix: str) -> str:
    apgr = header.metrics.get(f"{prefix}apgr")
    told = (
        "no gap between the weakest and the strongest arm"
        if apgr is None
        else f"APGR {apgr:.3f}, 0.5 is chance"
    )
    return f"{told}; {header.metrics[f'{prefix}supported_share']:.0%} of the prompts supported"


def _table(title: str, figures: Mapping[str, ArmFigures]) -> Table:
    table = Table("arm", title=title, title_justify="left")
    for heading in ("outcomes", "success", "AUC", "Brier", "ECE", "by chance"):
        table.add_column(heading, justify="right")
    for arm, each in figures.items():
        table.add_row(
            escape(arm),
            str(each.num_outcomes),
            f"{each.success_share:.3f}",
            f"{each.auc:.3f}",
            f"{each.brier_score:.3f}",
            f"{each.calibration_error:.3f}",
            f"{each.calibration_noise:.3f}",
        )
    return table
