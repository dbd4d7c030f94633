"""What is said of a frontier: objectives, errors, changed answers, and no "above" without proof."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import orjson
import pytest
from rich.console import Console

from loadtests.frontier_figures import frontier
from loadtests.frontier_load import Answer, Way
from loadtests.frontier_plot import frontier_png
from loadtests.frontier_report import Objectives, Report, as_json, caption, markdown, report_of, verdict
from loadtests.frontier_tables import render
from loadtests.machine import this_machine
from tests.loadtests.frontier_columns import NUM, Router, Tiers, by_lot, by_need

FAST = Way(name="always-fast", model="fast", target=None)
FULL = Way(name="always-full", model="full", target=None)
ROUTED = Way(name="routed-0.5", model="auto", target=0.5)
OBJECTIVES = Objectives(max_ttft_s=1.0, max_tpot_s=0.1)
SUBJECT = {"models": {"full": "f:1", "fast": "f:2"}, "concurrency": 2}


def answer(place: int, tier: str, *, is_right: bool = True) -> Answer:
    return Answer(
        prompt_id=str(place),
        is_right=is_right,
        tier=tier,
        reason="best_value",
        router="router-1",
        cost=5.0 if tier == "full" else 1.0,
        ttft_s=0.2,
        tpot_s=0.05,
        e2e_s=0.5,
        num_output_tokens=4,
        text="x",
        error=None,
    )


@pytest.mark.parametrize(
    ("change", "is_met"),
    [
        ({}, True),
        ({"is_right": False}, False),
        ({"ttft_s": 1.01}, False),
        ({"ttft_s": None}, False),
        ({"tpot_s": 0.11}, False),
        ({"tpot_s": None}, True),
    ],
)
def test_a_good_answer_meets_all_objectives(change: dict[str, float | None], is_met: bool) -> None:
    """Right, begun in time and gone on in time; an answer of one token has nothing to go on with."""
    assert OBJECTIVES.are_met(dataclasses.replace(answer(0, "fast"), **change)) is is_met  # type: ignore[arg-type]


def small_report() -> Report:
    """Six prompts; one routed request failed, and one routed answer is not what the tier itself answered."""
    fast = [answer(place, "fast", is_right=place < 2) for place in range(6)]
    full = [answer(place, "full", is_right=place < 4) for place in range(6)]
    routed = [answer(place, "full" if place in {2, 3} else "fast", is_right=place < 4) for place in range(6)]
    routed[0] = dataclasses.replace(routed[0], is_right=False)
    routed[5] = dataclasses.replace(routed[5], error="status 503", tier=None, router=None, is_right=False)
    return report_of(
        {FAST.name: fast, FULL.name: full, ROUTED.name: routed},
        (FAST, FULL, ROUTED),
        ends=(FAST, FULL),
        groups=np.arange(6),
        objectives=OBJECTIVES,
        subject=SUBJECT,
        machine=this_machine(),
        seed=0,
    )


def test_what_went_wrong_is_said() -> None:
    """A request without an answer counts as wrong and is named; so does an answer that another batch changed."""
    report = small_report()
    assert report.num_errors == {"routed-0.5": 1}
    assert (report.num_changed, report.num_compared) == (1, 5)
    assert report.routers == ("router-1",)
    assert report.frontier.routed[0.5].score.value == pytest.approx(3 / 6)
    assert report.frontier.routed[0.5].full_share.value == pytest.approx(2 / 6)
    assert "Requests without an answer: routed-0.5 1." in caption(report)
    assert "1 of 5 routed answers were judged otherwise" in caption(report)


def test_markdown_has_a_row_for_each_way() -> None:
    """The ends are without a gain, and the routed way has both."""
    lines = markdown(small_report()).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| always fast", "| routed, 0.5", "| always full"]
    assert rows[1].startswith("| always fast | 33.3 % [")
    assert rows[2].count("[") == 3
    assert len({row.count("|") for row in rows}) == 1


def test_tables_fit_a_terminal() -> None:
    """Every way is a row of both tables, and none is wrapped at 80 columns."""
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render(small_report()))
    lines = console.export_text().splitlines()
    for way in ("always fast", "routed, 0.5", "always full"):
        assert sum(line.strip().startswith(way) for line in lines) == 2


def test_json_is_json_with_every_interval() -> None:
    told = orjson.loads(orjson.dumps(as_json(small_report()), option=orjson.OPT_SERIALIZE_NUMPY))
    assert told["routed"][0]["target"] == 0.5
    assert set(told["mean_gain"]["at_share"]) == {"value", "low", "high"}
    assert told["is_above"] in ({"at_share": share, "at_cost": cost} for share in (0, 1) for cost in (0, 1))
    assert told["reasons"]["routed-0.5"] == {"best_value": 6}


@pytest.mark.parametrize(
    ("router", "said"),
    [(by_need, "lies above the line at equal share and at equal cost:"), (by_lot, "could not be told from")],
)
def test_above_is_said_only_with_proof(router: Router, said: str) -> None:
    """Of a router that knows something it is said, of a lot it is not; both can be drawn."""
    generator = np.random.default_rng(5)
    tiers = Tiers(generator)
    fast, full = tiers.ends()
    routed = {target: tiers.way(router(generator, target, tiers)) for target in (0.3, 0.5, 0.7)}
    found = frontier(fast, full, routed, groups=np.arange(NUM), concurrency=1, seed=0, num_draws=200)
    assert said in verdict(found)
    drawn = frontier_png(found, "invented")
    assert drawn.startswith(b"\x89PNG")
    assert frontier_png(found, "invented") == drawn
