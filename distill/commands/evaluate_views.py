"""Tables of an evaluation and of the gate."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from distill.evaluate import Comparison
from distill.gate import Verdict
from distill.load_test import Trial
from distill.paired import Estimate


def score_table(found: Comparison) -> Table:
    """A line a domain, the candidate's greedy score beside the teacher's, and all together."""
    title = f"{found.candidate.name} beside {found.teacher.name}: verified scores of the same items"
    table = Table(title=title, title_justify="left")
    for name in ("domain", "items", "full", "candidate", "difference", "tokens"):
        table.add_column(name, justify="left" if name == "domain" else "right")
    for mine, theirs in zip(found.candidate.domains, found.teacher.domains, strict=True):
        table.add_row(
            mine.domain,
            str(mine.num_items),
            f"{theirs.greedy.mean:.3f}",
            f"{mine.greedy.mean:.3f}",
            _signed(found.kept.differences[mine.domain]),
            f"{mine.mean_tokens:.1f}",
        )
    table.add_section()
    table.add_row(
        "all",
        str(sum(each.num_items for each in found.candidate.domains)),
        f"{found.teacher.score.value:.3f}",
        f"{found.candidate.score.value:.3f}",
        f"{found.candidate.score.value - found.teacher.score.value:+.3f}",
        f"{found.candidate.mean_tokens:.1f}",
    )
    return table


def summary(found: Comparison) -> list[str]:
    """What is kept of all, and how near the next tokens are."""
    kept, near = found.kept.retention, found.nearness
    lines = ["retention: none, for the full model solves nothing"]
    if kept is not None:
        lines = [f"retention {kept.value:.3f}, 95 % interval {kept.low:.3f} to {kept.high:.3f}"]
    if near is not None:
        lines.append(
            f"{near.mean_divergence:.3f} nats from the full model, the same greedy token {near.greedy_share:.1%} of "
            f"{near.num_tokens} times"
        )
    for each in found.acceptance:
        rates = ", ".join(f"{rate:.2f}" for rate in each.rates)
        lines.append(f"as a draft in {each.domain}: {rates}; {each.block_efficiency:.2f} tokens a round")
    return lines


def trial_table(trials: Sequence[Trial]) -> Table:
    """A line an engine and number of streams."""
    table = Table(title="in engines, tokens a second, both in one run", title_justify="left")
    for name in ("engine", "streams", "full", "candidate", "ratio"):
        table.add_column(name, justify="left" if name == "engine" else "right")
    for trial in trials:
        if trial.fault:
            table.add_row(trial.engine, "", "", trial.fault, "")
        for num_streams, rate in trial.candidate.items():
            full = trial.full.get(num_streams)
            beside = (
                ("", f"{rate:.1f}", "")
                if full is None
                else (f"{full:.1f}", f"{rate:.1f}", f"{rate / full:.2f}×")
            )
            table.add_row(trial.engine, str(num_streams), *beside)
    return table


def gate_table(verdict: Verdict) -> Table:
    """A line a criterion."""
    table = Table(title="gate: passes" if verdict.passes else "gate: refuses", title_justify="left")
    for name in ("criterion", "measured", "wanted", ""):
        table.add_column(name)
    for each in verdict.criteria:
        table.add_row(each.name, each.measured, each.wanted, "yes" if each.passes else "NO")
    return table


def _signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"
