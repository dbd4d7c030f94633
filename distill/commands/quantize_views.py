"""What `tierwise distill quantize` shows."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from distill.quantization.report import WHOLE, Quantised, Report
from train.evaluate import Evaluation

_MB = 1e6


def tables(report: Report) -> Iterator[Table]:
    """All types beside the model that they were made of; and how far each is from it in each domain."""
    yield _summary(report)
    yield _by_domain(report)


def _summary(report: Report) -> Table:
    is_scored, is_timed = report.evaluation is not None, any(each.tokens_per_s for each in report.types)
    table = Table(title="quantised", title_justify="left")
    table.add_column("type", no_wrap=True)
    for name in ("MB", "bits a weight", "nats apart", "same greedy"):
        table.add_column(name, justify="right")
    if is_scored:
        table.add_column("score", justify="right")
        table.add_column("keeps", justify="right")
    if is_timed:
        table.add_column("tokens/s", justify="right")
    for name in ("weights in", "passes"):
        table.add_column(name)
    whole = [WHOLE, f"{report.size_bytes / _MB:.1f}", "32.00", "0", "1.000"]
    whole += [_score(report.evaluation), "1.000"] if is_scored else []
    whole += [_rate(report.tokens_per_s)] if is_timed else []
    table.add_row(*whole, "F32", "")
    for each in report.types:
        cells = [each.type, f"{each.size_bytes / _MB:.1f}"]
        cells += [f"{8 * each.size_bytes / report.num_parameters:.2f}"]
        cells += [f"{each.divergence:.4f}", f"{each.greedy_share:.3f}"]
        cells += [_score(each.evaluation), _kept(each)] if is_scored else []
        cells += [_rate(each.tokens_per_s)] if is_timed else []
        table.add_row(*cells, _formats(each), "no" if each.reasons else "yes")
    return table


def _by_domain(report: Report) -> Table:
    table = Table(title="nats a token apart, by domain", title_justify="left")
    table.add_column("domain")
    table.add_column("tokens", justify="right")
    for each in report.types:
        table.add_column(each.type, justify="right")
    for domain, first in report.types[0].agreements.items():
        apart = (f"{each.agreements[domain].mean_divergence:.4f}" for each in report.types)
        table.add_row(domain, str(first.num_tokens), *apart)
    return table


def _formats(each: Quantised) -> str:
    total = sum(each.num_weights.values())
    shares = ((name, num / total) for name, num in each.num_weights.items())
    return ", ".join(f"{name} {share:.0%}" for name, share in shares if share >= 0.005)


def _score(evaluation: Evaluation | None) -> str:
    return "-" if evaluation is None else f"{evaluation.greedy.mean:.3f}"


def _kept(each: Quantised) -> str:
    retention = each.kept and each.kept.retention
    return f"{retention.value:.3f} ({retention.low:.3f}-{retention.high:.3f})" if retention else "-"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}"
