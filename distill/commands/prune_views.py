"""What `tierwise distill prune` shows: what each removal costs, and what as many chosen otherwise would have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from distill.pruning.depth import Stage
from distill.pruning.fidelity import Layers, Scores

_SCORES = ("divergence, nats", "acceptance", "same greedy")


def removal_table(stages: Sequence[Stage], num_layers: int) -> Table:
    """A line for each layer that went, from the first on."""
    table = _table("what each removal costs", ("layers", "left out", *_SCORES, "worst would cost"))
    before = tuple(range(num_layers))
    for stage in stages:
        # a beam's best set need not lie inside the best set before it
        changed = [str(layer) for layer in before if layer not in stage.kept]
        changed += [f"+{layer}" for layer in stage.kept if layer not in before]
        worst = max(scores.divergence for scores in stage.alternatives.values())
        table.add_row(str(len(stage.kept)), " ".join(changed), *_cells(stage.scores), f"{worst:.3f}")
        before = stage.kept
    return table


def set_table(sets: Mapping[str, Layers], scores: Mapping[str, Scores]) -> Table:
    """A line for each way to choose as many layers."""
    table = _table("ways to choose as many", ("way", *_SCORES, "kept"), left=("way", "kept"))
    for name, kept in sets.items():
        table.add_row(name, *_cells(scores[name]), " ".join(map(str, kept)))
    return table


def channel_table(stages: Mapping[int, Scores], others: Mapping[str, Scores]) -> Table:
    """A line for each number of channels by their cost, then one for as many as the last chosen otherwise."""
    table = _table("what channels cost", ("channels", "chosen", *_SCORES), left=("chosen",))
    for number, scores in stages.items():
        table.add_row(str(number), "by cost", *_cells(scores))
    table.add_section()
    for name, scores in others.items():
        table.add_row(str(min(stages)), name, *_cells(scores))
    return table


def _table(title: str, names: Sequence[str], left: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="left" if name in left else "right")
    return table


def _cells(scores: Scores) -> tuple[str, str, str]:
    return f"{scores.divergence:.3f}", f"{scores.acceptance:.3f}", f"{scores.greedy_share:.3f}"
