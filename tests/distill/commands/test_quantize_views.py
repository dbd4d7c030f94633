"""What `tierwise distill quantize` shows: quality in each domain against size and speed, in one table."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from distill.commands.quantize_views import tables
from distill.paired import Estimate, Kept
from distill.quantization.report import Quantised, Report, Speed
from train.agreement import Agreement
from train.evaluate import DomainScore, Evaluation, Score


def evaluation(*scores: float) -> Evaluation:
    """Of a domain a score: sums, words."""
    rows = zip(("sums", "words"), scores, strict=True)
    return Evaluation(
        tuple(
            DomainScore(
                domain=domain,
                num_items=8,
                greedy=Score(score, 0.0, 1.0),
                sampled=None,
                num_errors=0,
                mean_tokens=4.0,
            )
            for domain, score in rows
        )
    )


def line(name: str, speed: Speed | None, *, apart: float, size_bytes: int) -> Quantised:
    """Twice as far apart in words as in sums."""
    return Quantised(
        type=name,
        file=name,
        sha256="0" * 64,
        size_bytes=size_bytes,
        num_weights={"Q8_0": 10},
        agreements={"sums": Agreement(apart, 0.9, 10), "words": Agreement(2 * apart, 0.8, 10)},
        evaluation=evaluation(0.5, 0.25),
        kept=Kept(Estimate(0.9, 0.8, 1.0), {}),
        speed=speed,
        reasons=(),
    )


@pytest.fixture
def report() -> Report:
    """Three types: in llama.cpp, in vLLM, and one that vLLM refuses."""
    return Report(
        sha256="1" * 64,
        num_parameters=10_000_000,
        size_bytes=40_000_000,
        evaluation=evaluation(0.6, 0.3),
        speeds=(Speed("llama.cpp", 20.0), Speed("vLLM", 18.0)),
        types=(
            line("q8_0", Speed("llama.cpp", 41.0), apart=0.001, size_bytes=11_000_000),
            line("w8a8", Speed("vLLM", 37.5), apart=0.002, size_bytes=12_000_000),
            line("w8a16", Speed("vLLM", None, "no kernel"), apart=0.003, size_bytes=13_000_000),
        ),
    )


def rows_of(report: Report) -> dict[str, list[str]]:
    """The second table: a row's name → its cells."""
    _, table = tables(report)
    out = StringIO()
    Console(file=out, width=200).print(table)
    rows = [[cell.strip() for cell in row.strip("│┃").split("│")] for row in out.getvalue().splitlines()]
    return {name: cells for name, *cells in rows if cells}


def test_quality_against_size_and_speed(report: Report) -> None:
    """Each type's own engine has its rate; a refusal is a word; every domain has its divergence and its score."""
    assert rows_of(report) == {
        "MB": ["40.0", "11.0", "12.0", "13.0"],
        "tokens/s, llama.cpp": ["20.0", "41.0", "", ""],
        "tokens/s, vLLM": ["18.0", "", "37.5", "refused"],
        "nats apart, sums": ["0", "0.0010", "0.0020", "0.0030"],
        "nats apart, words": ["0", "0.0020", "0.0040", "0.0060"],
        "score, sums": ["0.600", "0.500", "0.500", "0.500"],
        "score, words": ["0.300", "0.250", "0.250", "0.250"],
    }


def test_what_was_not_measured_has_no_row(report: Report) -> None:
    """Without engines and without scores there are sizes and divergences."""
    types = tuple(replace(each, speed=None, evaluation=None, kept=None) for each in report.types)
    bare = replace(report, speeds=(), evaluation=None, types=types)
    assert list(rows_of(bare)) == ["MB", "nats apart, sums", "nats apart, words"]
