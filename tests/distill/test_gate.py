"""The gate's arithmetic, by worked numbers: what passes at its limit, and what a hair beyond it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distill.gate import Candidacy, Cost, Evidence, RefusedError, Verdict, Wanted, is_permissive, judge
from distill.paired import Estimate, Kept

GOOD = Evidence(
    kept=Kept(Estimate(0.95, 0.90, 1.0), {"a": Estimate(0.0, -0.1, 0.1), "b": Estimate(-0.2, -0.3, -0.1)}),
    cost=Cost(0.004, mean_tokens=20, score=0.5),
    full_cost=Cost(0.010, mean_tokens=20, score=0.5),
    size_bytes=25_000_000,
    licence="Apache-2.0",
    is_same_tokenizer=True,
    loads={"llama.cpp": "", "vLLM": ""},
)


def failed(verdict: Verdict) -> list[str]:
    return [each.name for each in verdict.criteria if not each.passes]


def test_a_student_at_every_limit_passes() -> None:
    """Retention 0.90 at its lower end, a domain down by 0.10 at its upper end, 0.40 of the cost, 25 MB."""
    verdict = judge(Candidacy.STUDENT, GOOD, Wanted())
    assert verdict.passes
    verdict.require()
    assert [each.name for each in verdict.criteria] == [
        "retention", "worst domain", "cost of a token at 16 streams", "size", "licence", "tokenizer", "llama.cpp",
        "vLLM",
    ]  # fmt: skip
    assert verdict.criteria[2].measured == "0.40 (4.00 ms to 10.00 ms)"
    assert verdict.criteria[1].measured == "b -0.200 (-0.300 to -0.100)"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"kept": Kept(Estimate(0.99, 0.899, 1.0), {"a": Estimate(0, 0, 0)})}, "retention"),
        ({"kept": Kept(None, {"a": Estimate(0, 0, 0)})}, "retention"),
        (
            {"kept": Kept(Estimate(1, 1, 1), {"a": Estimate(0, 0, 0), "b": Estimate(-0.2, -0.3, -0.11)})},
            "worst domain",
        ),
        ({"cost": Cost(0.00401, 20, 0.5)}, "cost of a token at 16 streams"),
        ({"cost": None}, "cost of a token at 16 streams"),
        ({"full_cost": None}, "cost of a token at 16 streams"),
        ({"size_bytes": 25_000_001}, "size"),
        ({"licence": "LicenseRef-Proprietary"}, "licence"),
        ({"licence": ""}, "licence"),
        ({"is_same_tokenizer": False}, "tokenizer"),
        ({"loads": {"llama.cpp": "missing tensor", "vLLM": ""}}, "llama.cpp"),
        ({"loads": {"llama.cpp": ""}}, "vLLM"),
    ],
)
def test_each_line_alone_refuses(changed: dict[str, object], name: str) -> None:
    """What is a hair beyond a limit, or was not measured, is refused by name, and by nothing else."""
    verdict = judge(Candidacy.STUDENT, replace(GOOD, **changed), Wanted())  # type: ignore[arg-type]
    assert failed(verdict) == [name]
    with pytest.raises(RefusedError, match=f"refused: {name} is .*; nothing was published"):
        verdict.require()


def test_nothing_measured_passes_nothing() -> None:
    """An evidence without scores, times and trials fails all of these lines."""
    bare = Evidence(size_bytes=1, licence="MIT", is_same_tokenizer=True, loads={})
    assert failed(judge(Candidacy.QUANTISED, bare, Wanted())) == [
        "retention", "worst domain", "cost of a token at 16 streams", "llama.cpp", "vLLM"
    ]  # fmt: skip
    assert failed(judge(Candidacy.DRAFT, bare, Wanted())) == ["acceptance", "llama.cpp", "vLLM"]


def test_cost_of_a_solved_task() -> None:
    """20 tokens of 4 ms at a score of 0.4 are 200 ms a solved task; 10 of 10 ms at 0.5 are as many: a share of 1."""
    wanted = Wanted(cost_of="solved", max_cost_share=1.0)
    found = replace(GOOD, cost=Cost(0.004, 20, 0.4), full_cost=Cost(0.010, 10, 0.5))
    (line,) = [each for each in judge(Candidacy.STUDENT, found, wanted).criteria if "cost" in each.name]
    assert (line.measured, line.passes) == ("1.00 (200.00 ms to 200.00 ms)", True)
    never = replace(found, cost=Cost(0.004, 20, 0.0)), replace(found, full_cost=Cost(0.010, 10, 0.0))
    assert not any(judge(Candidacy.STUDENT, each, wanted).passes for each in never)


def test_a_draft_has_to_pay() -> None:
    """The cost model's best domain decides; what a draft would score does not."""
    draft = replace(GOOD, kept=None, cost=None, size_bytes=10**9, break_even=0.62)
    slow, fast = (replace(draft, speed_ups={"a": 0.9, "b": best}) for best in (1.0, 1.3))
    assert failed(judge(Candidacy.DRAFT, slow, Wanted())) == ["acceptance"]
    verdict = judge(Candidacy.DRAFT, fast, Wanted())
    assert verdict.passes
    assert verdict.criteria[0].measured == "1.30× in b, predicted; 0.62 would pay"


def test_only_engines_that_are_wanted() -> None:
    """What one engine cannot load does not matter where another is asked for."""
    found = replace(GOOD, loads={"llama.cpp": ""})
    assert judge(Candidacy.STUDENT, found, Wanted(engines=("llama.cpp",))).passes


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT AND Apache-2.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT WITH Classpath-exception-2.0", False),
        ("", False),
    ],
)
def test_licences(expression: str, expected: bool) -> None:
    """SPDX expressions: all of an AND, any of an OR, and nothing that is not known."""
    assert is_permissive(expression, Wanted().licences) is expected
