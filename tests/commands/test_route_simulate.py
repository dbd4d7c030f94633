"""`tierwise route simulate`: what it prints, what it writes, what it refuses, and a ledger played again."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from serving.commands.line_chart import Chart, Line
from serving.commands.route_simulate import main
from serving.commands.route_simulate_views import report
from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.records import AttemptRecord, DecisionRecord, Outcome, Usage
from serving.ledger.tables import attempt_row, decision_row

CONFIG = """\
[tiers.full]
engine = { type = "external", urls = ["http://127.0.0.1:1"], model = "m" }
price = { input = 1.0, output = 4.0 }
[tiers.fast]
engine = { type = "external", urls = ["http://127.0.0.1:2"], model = "m" }
price = { input = 0.2, output = 0.8 }
"""


def decision(
    number: int,
    *,
    p_fast: float,
    arm: str,
    excluded: dict[str, str] | None = None,
    quality_floor: float | None = 0.0,
) -> DecisionRecord:
    costs, seconds = {"fast": 1.0, "full": 5.0}, {"fast": 0.5, "full": 3.0}
    candidates = [
        {
            "arm": name,
            "p": p,
            "weighed": p,
            "cost": costs[name],
            "seconds": seconds[name],
            "full": float(name == "full"),
            "excluded": (excluded or {}).get(name),
        }
        for name, p in (("full", 0.9), ("fast", p_fast))
    ]
    return DecisionRecord(
        request_id=f"req-{number}",
        created_at=1_000.0 + number / 5,
        endpoint="chat",
        key=None,
        session=None,
        model="auto",
        is_streaming=False,
        arm=arm,
        tier=arm,
        reason="best_value",
        success_probability=p_fast,
        expected_cost=costs[arm],
        metric="cost_per_request",
        price_of_compute=0.0,
        propensity=1.0,
        quality_floor=quality_floor,
        is_curtailed=bool(excluded),
        middle_price=0.0,
        spread=0.0,
        exploration_share=0.0,
        lot=0.5,
        policy_version="p",
        artifact_version="a",
        candidates=orjson.dumps(candidates).decode(),
        num_input_chars=4,
        status=200,
        error_code=None,
        num_attempts=1,
        total_s=1.0,
        cost=2 * costs[arm],
        engine_seconds=2 * seconds[arm],
        full_share=float(arm == "full"),
        prompt=None,
    )


def attempt(number: int) -> AttemptRecord:
    """One of the full tier, that took twice as long as expected."""
    return AttemptRecord(
        request_id=f"req-{number}",
        attempt=0,
        arm="full",
        tier="full",
        replica="r",
        started_s=0.0,
        first_byte_s=0.1,
        first_token_s=None,
        ended_s=6.0,
        is_committed=True,
        status=200,
        outcome=Outcome.SUCCESS,
        error=None,
        usage=Usage(),
        cost=0.0,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ledger of ten minutes in which everything went to full, at twice the expected money."""
    database = LedgerDatabase(ledger_url(None, tmp_path))
    gains = np.random.default_rng(0).uniform(0, 0.5, 3000)
    decisions = [
        decision_row(decision(i, p_fast=0.9 - float(gain), arm="full")) for i, gain in enumerate(gains)
    ]
    attempts = [attempt_row(attempt(i), recorded_at=1_000.0) for i in range(3000)]
    database.write(1, decision_rows=decisions, attempt_rows=attempts)
    database.close()
    (tmp_path / "tierwise.toml").write_text(CONFIG)
    return tmp_path


def played(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    status = main([*argv, "--json"])
    return status, json.loads(capsys.readouterr().out)["played"][0]


def test_the_default_is_the_scenario_of_the_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name, requests become twice as hard; the target is held, and the series is in the JSON."""
    status, one = played(capsys)
    assert (status, one["name"], one["is_held"]) == (0, "harder", True)
    (run,) = one["runs"]
    assert run["realised"] == pytest.approx(0.3, abs=0.02)
    assert len(run["series"]) >= 400
    assert set(run["series"][0]) == {"at", "realised", "price_of_compute", "quality"}


def test_a_table_for_a_person_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table names the scenario and what won; the page is whole, and its plots are well-formed."""
    page = tmp_path / "held.html"
    assert main(["floor", "--report", str(page)]) == 0
    out = capsys.readouterr().out
    assert "floor held" in out
    assert "the floor wins" in out
    html = page.read_text()
    assert html.count("<svg") == html.count("</svg>") == 3
    for start in [i for i in range(len(html)) if html.startswith("<svg", i)]:
        ET.fromstring(html[start : html.index("</svg>", start) + 6])
    assert "http" not in html


def test_terms_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """--metric and --target replace the scenario's own."""
    _, one = played(capsys, "steady", "--metric", "engine_seconds_per_request", "--target", "1.0")
    assert one["runs"][0]["realised"] == pytest.approx(1.0, rel=0.03)


def test_a_target_that_is_not_held_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """A target below what the cheapest arm takes is missed, and the table says why."""
    assert main(["steady", "--metric", "cost_per_request", "--target", "0.00001"]) == 1
    out = capsys.readouterr().out
    assert "missed" in out
    assert "no λ takes as little as the target" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["hardr"], "did you mean 'harder'"),
        (["--metric", "cost_per_hour"], "--metric needs --target"),
        (["--target", "2"], "at most 1"),
    ],
)
def test_wrong_use_is_status_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what to write instead."""
    assert main(argv) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--rate", "0"], ["--rate", "x"], ["--runs", "0"], ["--winner", "x"]])
def test_options_out_of_range_are_refused(argv: list[str]) -> None:
    """argparse ends with its own status 2."""
    with pytest.raises(SystemExit, match="2"):
        main(argv)


def test_a_ledger_is_played_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What all went to full is held at a fifth; costs are the expected ones times the factor they were missed by."""
    where = ["--ledger", "--home", str(home), "--config", str(home / "tierwise.toml")]
    status, one = played(capsys, *where, "--target", "0.2")
    assert (status, one["name"]) == (0, "ledger")
    run = one["runs"][0]
    assert run["full_share"] == pytest.approx(0.2, abs=0.02)
    assert run["cost_per_request"] == pytest.approx(2 * (0.2 * 5 + 0.8 * 1), rel=0.05)
    assert run["success_share"] is None


def test_a_ledger_can_be_held_to_seconds(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Answers took twice the seconds expected, 3 for full and half of one for fast: a mean of 2 is a fifth."""
    where = ["--ledger", "--home", str(home), "--config", str(home / "tierwise.toml")]
    _, one = played(capsys, *where, "--metric", "engine_seconds_per_request", "--target", "2.0")
    assert one["runs"][0]["realised"] == pytest.approx(2.0, rel=0.05)
    assert one["runs"][0]["full_share"] == pytest.approx(0.2, abs=0.02)


def test_what_a_client_chose_then_stays_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests with one arm left go where they went, and a target below them is said to be out of reach."""
    database = LedgerDatabase(ledger_url(None, tmp_path))
    rows = [
        decision_row(decision(i, p_fast=0.5, arm="full", excluded={"fast": "client"} if i % 2 else None))
        for i in range(1000)
    ]
    database.write(1, decision_rows=rows)
    database.close()
    (tmp_path / "tierwise.toml").write_text(CONFIG)
    where = ["--ledger", "--home", str(tmp_path), "--config", str(tmp_path / "tierwise.toml")]
    _, one = played(capsys, *where, "--target", "0.2")
    assert one["runs"][0]["full_share"] == pytest.approx(0.5, abs=0.02)
    assert one["runs"][0]["is_budget_infeasible"]


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_requests_floor_is_the_one_it_had(
    is_recorded: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client's least quality, which only full reaches, holds at any target; where an earlier version kept none, the
    floor of the settings does."""
    database = LedgerDatabase(ledger_url(None, tmp_path))
    rows = [
        decision(i, p_fast=0.5, arm="full", quality_floor=(0.8 if i % 2 else 0.0) if is_recorded else None)
        for i in range(1000)
    ]
    database.write(1, decision_rows=list(map(decision_row, rows)))
    database.close()
    (tmp_path / "tierwise.toml").write_text(CONFIG)
    where = ["--ledger", "--home", str(tmp_path), "--config", str(tmp_path / "tierwise.toml")]
    _, one = played(capsys, *where, "--target", "0.2", "--set", "router.min_quality=0.8")
    assert one["runs"][0]["full_share"] == pytest.approx(0.5 if is_recorded else 1.0, abs=0.02)


def test_no_ledger_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A home without a ledger, and a ledger without decisions of that time, are said to be so."""
    assert main(["--ledger", "--home", str(tmp_path)]) == 1
    assert "no ledger" in capsys.readouterr().err
    database = LedgerDatabase(ledger_url(None, tmp_path))
    database.write(1)
    database.close()
    assert main(["--ledger", "--home", str(tmp_path)]) == 1
    assert "holds no decision" in capsys.readouterr().err


def test_a_chart_survives_what_is_missing_or_flat() -> None:
    """No points, one point, a flat line and gaps are drawn without a fault; labels are escaped."""
    nan = float("nan")
    for points in ([], [(0.0, 1.0)], [(0.0, 5.0), (1.0, 5.0)], [(0.0, 1.0), (1.0, nan), (2.0, 3.0)]):
        svg = Chart(title="a < b", lines=(Line(label="<x>", points=points, style="first"),)).svg()
        root = ET.fromstring(svg)
        assert root.attrib["aria-label"] == "a < b"
        assert "nan" not in svg
    assert report([]).startswith("<!doctype html>")
