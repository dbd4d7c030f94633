"""The same, or a tie, or a defect; sooner, or later: worked by hand, and asked of engines that are not there."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from distill.cost_model import expected_tokens
from loadtests.machine import this_machine
from loadtests.speculation.answers import Answer
from loadtests.speculation.drafts import draft_of
from loadtests.speculation.findings import (
    Difference,
    Pair,
    Verdict,
    alike_rate,
    first_difference,
    paying,
    rows_of,
)
from loadtests.speculation.predictions import read_predictions
from loadtests.speculation.prompts import OWN_DOMAINS, Prompt, prompts_of
from loadtests.speculation.race import ALONE, race
from loadtests.speculation.report import Report, as_json, markdown
from loadtests.tuning.load import ServedEngine


def answer(tokens: Sequence[int], request_s: float, drafted: int = 0, accepted: int = 0) -> Answer:
    return Answer(
        prompt_tokens=(1, 2),
        tokens=tuple(tokens),
        request_s=request_s,
        decode_s=request_s / 2,
        num_drafted=drafted,
        num_accepted=accepted,
    )


def pairs_of(seconds: Sequence[float], *, domain: str = "copy", gap: float | None = None) -> list[Pair]:
    """Prompts that take 1 s alone and so long with the draft, the same said, unless the first differs by `gap`."""
    return [
        Pair(
            domain=domain,
            alone=[answer([5, 6, 7, 8], 1.0)],
            drafted=[answer([5, 6, 7, 8], each, drafted=4, accepted=2)],
            difference=Difference(position=1, gap=gap) if gap is not None and place == 0 else None,
        )
        for place, each in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("alone", "drafted", "place"),
    [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([], [1], 0)],
)
def test_first_difference(alone: list[int], drafted: list[int], place: int | None) -> None:
    """One that ends earlier differs where it ends."""
    assert first_difference(alone, drafted) == place


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ([0.5, 0.6, 0.7, 0.8, 0.9, 0.95], Verdict.PAYS),
        ([1.5, 1.6, 1.7, 1.8, 1.9, 1.95], Verdict.COSTS),
        ([0.5, 0.6, 0.7, 0.8, 0.9, 1.1], Verdict.UNSURE),
        ([0.5] * 5, Verdict.UNSURE),
    ],
)
def test_what_pays(seconds: list[float], verdict: Verdict) -> None:
    """All of six ratios lie on one side of 1, or it is not said; of five prompts nothing is."""
    (row,) = rows_of("d", pairs_of(seconds), {"copy": 1.4}, max_drafts=4, max_gap=0.05)
    assert row.verdict is verdict
    assert (row.acceptance, row.accepted_share, row.predicted) == (0.5, 0.5, 1.4)
    assert row.request is not None
    assert (row.request.low is None) is (len(seconds) < 6)


@pytest.mark.parametrize("num_drafts", [1, 3, 8])
def test_a_share_of_steps_and_one_chance_stand_for_all_rounds(num_drafts: int) -> None:
    """From them the cost model has as many tokens a step as were said: the two totals are kept."""
    assert alike_rate(0.0, num_drafts) == pytest.approx(0)
    assert alike_rate(1.0, num_drafts) == pytest.approx(1)
    num_steps, num_drafted, num_accepted = 40, 6 * num_drafts, 4 * num_drafts
    pair = Pair(
        domain="copy",
        alone=[answer([0] * (num_steps + num_accepted), 1)],
        drafted=[answer([0] * (num_steps + num_accepted), 1, num_drafted, num_accepted)],
    )
    (row,) = rows_of("d", [pair], {}, max_drafts=num_drafts, max_gap=0.05)
    assert row.proposed_share == pytest.approx(6 / num_steps)
    assert row.acceptance is not None
    rate = alike_rate(row.acceptance, num_drafts)
    rates = [rate * row.proposed_share, *[rate] * (num_drafts - 1)]
    assert expected_tokens(rates) == pytest.approx((num_steps + num_accepted) / num_steps)


def test_a_tie_is_no_defect() -> None:
    """A gap as wide as allowed is rounding; one wider refuses the draft, however fast, in every domain."""
    fast = [0.5] * 6
    (tie,) = rows_of("d", pairs_of(fast, gap=0.05), {}, max_drafts=4, max_gap=0.05)
    assert (tie.num_same, tie.num_ties, tie.num_defects, tie.max_tie_gap) == (5, 1, 0, 0.05)
    assert tie.verdict is Verdict.PAYS
    rows = rows_of(
        "d", pairs_of(fast) + pairs_of(fast, domain="prose", gap=0.2), {}, max_drafts=4, max_gap=0.05
    )
    assert [row.domain for row in rows] == ["copy", "prose", "all"]
    assert [row.verdict for row in rows] == [Verdict.PAYS, Verdict.DEFECT, Verdict.DEFECT]
    assert paying(rows) == {}
    assert not Difference(position=3, gap=None).is_tie(10)


def test_answers_of_other_lengths_are_not_timed() -> None:
    """Less said is not sooner said."""
    short = Pair(domain="copy", alone=[answer([1, 2, 3], 1)], drafted=[answer([1, 2], 0.1)])
    (row,) = rows_of("d", [short], {}, max_drafts=4, max_gap=0.05)
    assert row.request is row.decode is None
    assert row.verdict is Verdict.UNSURE


def test_a_prompts_ratio_is_that_of_rounds_side_by_side() -> None:
    """A slow moment of the machine falls on both; the median is over rounds."""
    pair = Pair(
        domain="copy",
        alone=[answer([1, 2], each) for each in (1.0, 10.0, 2.0)],
        drafted=[answer([1, 2], each) for each in (0.5, 5.0, 4.0)],
    )
    assert pair.request_ratio == pair.decode_ratio == 2


class Said:
    """Engines that say what they are told to. Implements `Dialect`."""

    def __init__(self, tokens: Mapping[str, Sequence[int]]) -> None:
        self._tokens = tokens
        self.asked: list[str] = []
        self.asked_after: list[tuple[int, ...]] = []

    def answer(self, engine: ServedEngine, prompt: str, max_tokens: int) -> Answer:
        self.asked.append(engine.url)
        return answer(self._tokens[engine.url][:max_tokens], 1.0)

    def logprobs(self, engine: ServedEngine, tokens: Sequence[int]) -> Mapping[int, float]:
        assert engine.url == "alone"
        self.asked_after.append(tuple(tokens))
        return {8: -0.7, 9: -0.72, 10: -3.0}


def test_a_race_explains_what_differs() -> None:
    """The model alone is asked after the tokens that both said; a token that it finds unlikely has no gap."""
    said = Said({"alone": [7, 8, 1], "same": [7, 8, 1], "tie": [7, 9, 1], "wild": [7, 11, 1], "short": [7]})
    engines = {name: ServedEngine(url=name, model="m") for name in ("same", "tie", "wild", "short")}
    pairs = race(
        {ALONE: ServedEngine(url="alone", model="m"), **engines},
        said,
        [Prompt("copy", "?")],
        max_tokens=3,
        num_rounds=2,
        rng=random.Random(1),
        on_answer=lambda: None,
    )
    found = {name: each.difference for name, (each,) in pairs.items()}
    assert found["same"] is None
    assert found["tie"] == Difference(position=1, gap=pytest.approx(0.02))
    assert found["wild"] == Difference(position=1, gap=None)
    assert found["short"] == Difference(position=1, gap=None)
    assert set(said.asked_after) == {(1, 2, 7)}
    warm, first, second = said.asked[:5], said.asked[5:10], said.asked[10:]
    assert sorted(warm) == sorted(first) == sorted(second) == sorted(["alone", *engines])


def test_predictions_are_the_cost_models(tmp_path: Path) -> None:
    """Those of one stream and of as many drafts; what is not there is told with the command."""
    path = tmp_path / "cost.json"
    told: dict[str, Any] = {
        "predictions": [
            {"num_streams": 1, "num_drafts": 3, "speed_ups": {"copy": 1.3}},
            {"num_streams": 4, "num_drafts": 8, "speed_ups": {"copy": 9}},
        ]
    }
    path.write_bytes(orjson.dumps(told))
    assert read_predictions(path, num_drafts=3) == {"copy": 1.3}
    with pytest.raises(ValueError, match="with --drafts 8"):
        read_predictions(path, num_drafts=8)
    path.write_text("[]")
    with pytest.raises(ValueError, match="name the JSON of `distill cost-model`"):
        read_predictions(path, num_drafts=3)


def test_prompts_repeat_what_is_asked() -> None:
    """Different ones of each domain, the same for a seed; what is to be copied stands in them."""
    domains = [*OWN_DOMAINS, "sums"]
    prompts = prompts_of(domains, 6, seed=3)
    assert [each.domain for each in prompts] == [domain for domain in domains for _ in range(6)]
    assert len({each.text for each in prompts}) == len(prompts)
    assert prompts == prompts_of(domains, 6, seed=3) != prompts_of(domains, 6, seed=4)
    edit = next(each.text for each in prompts if each.domain == "edit")
    asked, _, text = edit.partition("\n\n")
    assert asked.split("'")[1] in text
    assert asked.split("'")[3] not in text
    with pytest.raises(ValueError, match="no domain 'songs'; there are copy, edit"):
        prompts_of(["songs"], 1, seed=0)


def test_the_report_names_what_is_refused() -> None:
    """What pays and what does not, in words, in the table, and for programs."""
    pairs = {"quick": pairs_of([0.5] * 6, gap=0.01), "slow": pairs_of([2.0] * 6)}
    report = Report(
        machine=this_machine(),
        engine="e",
        model="m",
        drafts=[draft_of("quick=ngram"), draft_of("slow=model,model=x")],
        rows=[
            row for name, each in pairs.items() for row in rows_of(name, each, {}, max_drafts=4, max_gap=0.05)
        ],
        pairs=pairs,
        max_tokens=4,
        num_rounds=1,
        max_gap=0.05,
    )
    assert report.conclusion == "quick pays in copy; refused: slow"
    assert "| quick | copy | 6 | 5 | 1 (≤ 0.010 nats) | 0 | 50% | 50% | × 2.000 (2.000–2.000) |" in markdown(
        report
    )
    told = as_json(report)
    assert told["pays"] == {"quick": ["copy"]}
    assert told["differences"] == [
        {"draft": "quick", "prompt": 0, "domain": "copy", "position": 1, "gap": 0.01}
    ]
    (quick, slow) = told["acceptance"]
    assert (quick["draft"], quick["domain"], len(quick["places"])) == ("quick", "copy", 8)
    assert slow["places"][0]["conditional"] < slow["places"][1]["conditional"]
    assert orjson.dumps(told)
