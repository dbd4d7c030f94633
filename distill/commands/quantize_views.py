"""What `tierwise distill quantize` shows."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from distill.gate import ENGINES, EngineName
from distill.quantization.report import WHOLE, Quantised, Report, Speed
from train.evaluate import Evaluation

_MB = 1e6


def tables(report: Report) -> Iterator[Table]:
    """All types beside the model that they were made of; and quality in each domain against size and speed."""
    yield _summary(report)
    yield _by_domain(report)


def _summary(report: Report) -> Table:
    is_scored = report.evaluation is not None
    table = Table(title="quantised", title_justify="left")
    table.add_column("type", no_wrap=True)
    for name in ("bits a weight", "nats apart", "same greedy", *(("score", "keeps") if is_scored else ())):
        table.add_column(name, justify="right")
    for name in ("weights in", "passes"):
        table.add_column(name)
    whole = [WHOLE, "32.00", "0", "1.000"]
    whole += [_score(report.evaluation), "1.000"] if is_scored else []
    table.add_row(*whole, "F32", "")
    for each in report.types:
        cells = [each.type, f"{8 * each.size_bytes / report.num_parameters:.2f}"]
        cells += [f"{each.divergence:.4f}", f"{each.greedy_share:.3f}"]
        cells += [_score(each.evaluation), _kept(each)] if is_scored else []
        table.add_row(*cells, _formats(each), "no" if each.reasons else "yes")
    return table


def _by_domain(report: Report) -> Table:
    table = Table(title="quality by domain, against size and speed", title_justify="left")
    table.add_column("")
    for name in (WHOLE, *(each.type for each in report.types)):
        table.add_column(name, justify="right")
    sizes = (report.size_bytes, *(each.size_bytes for each in report.types))
    table.add_row("MB", *(f"{size / _MB:.1f}" for size in sizes))
    for engine in ENGINES:
        rates = [_rate(engine, *report.speeds), *(_rate(engine, each.speed) for each in report.types)]
        if any(rates):
            table.add_row(f"tokens/s, {engine}", *rates)
    table.add_section()
    for domain in report.types[0].agreements:
        apart = (f"{each.agreements[domain].mean_divergence:.4f}" for each in report.types)
        table.add_row(f"nats apart, {domain}", "0", *apart)
    if report.evaluation is not None:
        table.add_section()
        evaluations = (report.evaluation, *(each.evaluation for each in report.types))
        for place, whole in enumerate(report.evaluation.domains):
            scores = (f"{each.domains[place].greedy.mean:.3f}" if each else "" for each in evaluations)
            table.add_row(f"score, {whole.domain}", *scores)
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


def _rate(engine: EngineName, *speeds: Speed | None) -> str:
    """Of those that are for this engine; empty where there is none."""
    found = (each for each in speeds if each is not None and each.engine == engine)
    return "".join("refused" if each.tokens_per_s is None else f"{each.tokens_per_s:.1f}" for each in found)
