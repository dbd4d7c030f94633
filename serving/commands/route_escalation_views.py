"""How `tierwise route escalation` shows its reports to a person."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from router.escalation_report import EscalationReport
from router.offer import Metric
from router.resampling import Estimate
from serving.commands.ledger_views import console

NAMES = {Metric.COST_PER_REQUEST: "cost", Metric.FULL_SHARE: "share"}


def print_reports(reports: Sequence[EscalationReport], *, first: str, next: str, num_prompts: int) -> None:
    """A line for each metric and commit point, and then what follows from them."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for heading in ("metric", "tokens"):
        table.add_column(heading)
    for point in reports[0].points:
        table.add_column(f"{point.budget:.0%}", justify="right", no_wrap=True)
    for heading in ("mean [95 %]", "centinats [95 %]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(
            NAMES[report.metric],
            str(report.num_tokens),
            *[_marked(point.gain) for point in report.points],
            _with_interval(report.mean_gain),
            _with_interval(report.information),
        )
    out = console()
    out.print(
        f"{num_prompts} prompts. Points of success gained by going up from {first} to {next} over predicting alone, at "
        f"equal expense: so far of the way from {first} always to {next} always. * is beyond chance."
    )
    out.print(table)
    out.print(
        "centinats: hundredths of a nat by which the first tokens improve the first arm's held-out forecast.",
        verdict(reports),
        sep="\n",
    )


def verdict(reports: Sequence[EscalationReport]) -> str:
    """Where escalating is better beyond chance, and where predicting alone is."""
    lines = []
    for metric in dict.fromkeys(report.metric for report in reports):
        of_metric = [report for report in reports if report.metric is metric]
        points = [(report.num_tokens, point) for report in of_metric for point in report.points]
        better = [f"{num} tokens at {point.budget:.0%}" for num, point in points if point.gain.low > 0]
        worse = [f"{num} tokens at {point.budget:.0%}" for num, point in points if point.gain.high < 0]
        paying = [str(report.num_tokens) for report in of_metric if report.pays]
        lines.append(
            f"At equal {NAMES[metric]}, escalating is better with {', '.join(better) or 'no budget'}, predicting alone "
            f"with {', '.join(worse) or 'no budget'}; on average escalating "
            f"{'pays with ' + ', '.join(paying) + ' tokens' if paying else 'does not pay'}."
        )
    return "\n".join(lines)


def _marked(estimate: Estimate) -> str:
    is_clear = estimate.low > 0 or estimate.high < 0
    return f"{100 * estimate.value:+.2f}{'*' if is_clear else ' '}"


def _with_interval(estimate: Estimate) -> str:
    return f"{100 * estimate.value:+.2f} [{100 * estimate.low:+.2f}, {100 * estimate.high:+.2f}]"
