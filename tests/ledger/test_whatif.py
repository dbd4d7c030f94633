"""Tests of serving.ledger.whatif: a ledger whose truth is known, and every honest no."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router.offer import Metric
from serving.ledger.database import ledger_url
from serving.ledger.query import open_for_reading
from serving.ledger.whatif import NothingDecidedError, Question, answer
from tests.synthetic_ledger import BEGAN, TERMS, cost_at, success_at, write

NUM = 6000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of six thousand graded requests, a fifth of them drawn by lot."""
    made = tmp_path_factory.mktemp("home")
    write(made, NUM)
    return made


def ask(home: Path, max_decisions: int = 100_000, **asked: Any) -> dict[str, Any]:
    with open_for_reading(ledger_url(None, home)) as connection:
        return answer(connection, Question(**asked), max_decisions=max_decisions)


def covers(estimate: dict[str, float], truth: float) -> bool:
    return estimate["low"] <= truth <= estimate["high"]


@pytest.mark.parametrize("target", [0.2, 0.6])
def test_intervals_cover_the_truth_though_forecasts_are_wrong(home: Path, target: float) -> None:
    """Success, which is forecast too low for fast, and cost, which is forecast a quarter too high, are what they are in
    truth; the forecasts alone would be off by more than the intervals are wide."""
    (one,) = ask(home, targets=(target,), exploration_share=0.0)["answers"]
    assert covers(one["success"]["then"], success_at(target))
    assert covers(one["cost"]["then"], cost_at(target))
    assert one["taken"]["then"]["value"] == pytest.approx(target, abs=1e-6)
    assert one["shares"]["then"] == pytest.approx({"full": target, "fast": 1 - target}, abs=1e-6)
    width = one["success"]["then"]["high"] - one["success"]["then"]["low"]
    forecast_alone = success_at(target) - 0.1 * (1 - target)
    assert success_at(target) - forecast_alone > width / 2


def test_the_change_is_from_what_the_log_came_to(home: Path) -> None:
    """Now is the mix of rule and lot that the log was made with: 0.42 to full, at four fifths of its cost."""
    (one,) = ask(home, targets=(0.2,))["answers"]
    now = 0.8 * success_at(0.4) + 0.2 * (1 - 0.5 * 0.5)
    assert covers(one["success"]["now"], now)
    assert covers(one["cost"]["now"], cost_at(0.42))
    assert one["success"]["observed"] == pytest.approx(now, abs=0.02)
    assert one["success"]["change"]["high"] < 0
    assert one["cost"]["change"]["high"] < 0


def test_the_policy_of_the_log_changes_nothing(home: Path) -> None:
    """At the λ, band and exploration share of the log, every change is 0 and no request moves."""
    (one,) = ask(home, prices=(TERMS.price_of_compute,))["answers"]
    assert one["moved_share"] == pytest.approx(0, abs=1e-12)
    for name in ("success", "cost", "taken"):
        assert one[name]["change"] == pytest.approx({"value": 0, "low": 0, "high": 0}, abs=1e-9)


def test_several_targets_and_prices_are_answered_in_order(home: Path) -> None:
    """The more of full, the more succeeds and the more it costs; a greater λ takes less."""
    told = ask(home, targets=(0.3, 0.5), prices=(0.3, 0.5))
    asked = [(one["target"], one["price_of_compute"]) for one in told["answers"]]
    assert asked == [(0.3, None), (0.5, None), (None, 0.3), (None, 0.5)]
    low, high, cheap, dear = (one["cost"]["then"]["value"] for one in told["answers"])
    assert low < high
    assert dear < cheap
    assert (told["metric"], told["exploration_share"]) == ("full_share", 0.2)


def test_money_for_an_hour_is_asked_and_told_for_an_hour(home: Path) -> None:
    """At 3600 requests an hour, 7200 an hour is 2 a request; the cost of a request stays that of a request."""
    asked = {"metric": Metric.COST_PER_HOUR, "targets": (7200.0,)}
    (one,) = ask(home, **asked)["answers"]
    (same,) = ask(home, metric=Metric.COST_PER_REQUEST, targets=(2.0,))["answers"]
    assert one["shares"]["then"] == pytest.approx(same["shares"]["then"], abs=1e-3)
    assert one["taken"]["then"]["value"] == pytest.approx(3600 * one["cost"]["then"]["value"], rel=1e-3)


def test_without_grades_the_cost_is_known_and_the_success_is_not(tmp_path: Path) -> None:
    """Too few outcomes: how many there are, and how to get more."""
    write(tmp_path, 3000, graded_share=0.01)
    (one,) = ask(tmp_path, targets=(0.2,))["answers"]
    assert one["success"]["lack"] == "too_few_outcomes"
    assert one["success"]["then"] is None
    assert "POST /v1/feedback" in one["success"]["remedy"]
    assert one["cost"]["lack"] is None


def test_without_exploration_nothing_is_known_of_arms_that_were_not_tried(tmp_path: Path) -> None:
    """No support: the share of requests that it is about, and the setting that mends it."""
    write(tmp_path, 2000, terms=replace(TERMS, exploration_share=0.0))
    (one,) = ask(tmp_path, targets=(0.6,))["answers"]
    assert {one[name]["lack"] for name in ("success", "cost", "taken")} == {"no_support"}
    assert one["unsupported_share"] > 0.1
    assert "exploration_share" in one["cost"]["remedy"]


def test_a_little_exploration_wants_more_time(tmp_path: Path) -> None:
    """Little support: about how many times as much it takes."""
    write(tmp_path, 2000, terms=replace(TERMS, exploration_share=0.02))
    (one,) = ask(tmp_path, targets=(0.6,))["answers"]
    assert one["success"]["lack"] == "little_support"
    times = 100 / one["success"]["num_supporting"]
    assert f"{times:.1f} times" in one["success"]["remedy"]


def test_a_sample_says_that_it_is_one(home: Path) -> None:
    """A thousand or so of six thousand are looked at, and the truth is still within."""
    told = ask(home, max_decisions=3000, targets=(0.2,), exploration_share=0.0)
    assert told["is_sample"]
    assert 2700 <= told["num_looked_at"] <= 3300
    assert told["num_decided"] == NUM
    assert covers(told["answers"][0]["cost"]["then"], cost_at(0.2))


def test_nothing_to_look_at_is_said(home: Path, tmp_path: Path) -> None:
    """A span without a decision is no log."""
    with pytest.raises(NothingDecidedError, match="no decision of that time"):
        ask(home, targets=(0.2,), since=BEGAN + 2 * NUM)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "between 1 and 50"),
        ({"targets": (0.1,) * 51}, "between 1 and 50"),
        ({"targets": (0.0,)}, "above 0"),
        ({"targets": (float("nan"),)}, "above 0"),
        ({"prices": (-1.0,)}, "at least 0"),
        ({"targets": (1.5,), "metric": Metric.FULL_SHARE}, "at most 1"),
    ],
)
def test_what_makes_no_sense_is_not_asked(asked: dict[str, Any], says: str) -> None:
    """Targets are above 0, prices at least 0, shares at most 1; one is the least and fifty the most."""
    with pytest.raises(ValueError, match=says):
        Question(**asked)
