"""Tests of serving.ledger.decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from router.decision import Reason
from router.offer import Metric, Spend
from serving.ledger.database import ledger_url
from serving.ledger.decided import DecidedSpan, decided_span
from serving.ledger.query import open_for_reading
from serving.ledger.records import SHADOW, DecisionRecord, FeedbackRecord
from tests.synthetic_ledger import BEGAN, TERMS, grade, record, write, write_rows

HARD = record(0, 0.9, (0.5, 0.99), TERMS)
"""A hard request, which the rule sends to full."""


def read(home: Path, since: float | None = None, max_decisions: int = 1000) -> DecidedSpan | None:
    with open_for_reading(ledger_url(None, home)) as connection:
        return decided_span(connection, since, max_decisions=max_decisions)


def read_back(
    home: Path, decided: Iterable[DecisionRecord], grades: Iterable[FeedbackRecord] = ()
) -> DecidedSpan:
    write_rows(home, list(decided), list(grades))
    span = read(home)
    assert span is not None
    return span


def test_a_decision_comes_back_with_its_chances(tmp_path: Path) -> None:
    """What was offered, what each arm's chance was, and what the request took."""
    span = read_back(tmp_path, [HARD], [grade(HARD, 0.25)])
    (one,) = span.log
    assert (one.arms, one.chosen, one.success, one.is_forced) == (("full", "fast"), 0, 0.25, False)
    assert one.propensities == pytest.approx((0.9, 0.1))
    assert [arm.success_probability for arm in one.offer.arms] == pytest.approx([0.82, 0.18])
    assert one.realised == Spend(cost=4.0, engine_seconds=0.5, full_share=1.0)
    assert (span.metric, span.spread, span.exploration_share) == (Metric.FULL_SHARE, 0.1, 0.2)
    assert (span.num_decided, span.num_unusable, span.is_sample) == (1, 0, False)


def test_the_last_grade_of_the_arm_that_answered_counts(tmp_path: Path) -> None:
    """A grade may be given again; one of another arm, by a shadow run, is not the request's."""
    span = read_back(tmp_path, [HARD], [grade(HARD, 1.0), grade(HARD, 0.0), grade(HARD, 1.0, arm="fast")])
    assert span.log[0].success == 0.0


def test_a_grade_relative_to_another_arm_is_no_outcome(tmp_path: Path) -> None:
    """That the answer was as good as the stronger arm's does not say that it was good."""
    relative = replace(grade(HARD, 1.0), source=SHADOW)
    assert read_back(tmp_path / "one", [HARD], [relative]).log[0].success is None
    assert read_back(tmp_path / "both", [HARD], [grade(HARD, 0.0), relative]).log[0].success == 0.0


def test_an_id_that_was_sent_twice_has_no_outcome(tmp_path: Path) -> None:
    """Nobody knows which of the two was graded; both still tell what they cost."""
    span = read_back(tmp_path, [HARD, replace(HARD, created_at=BEGAN + 5)], [grade(HARD, 1.0)])
    assert [one.success for one in span.log] == [None, None]
    assert all(one.realised is not None for one in span.log)


def test_what_cannot_be_used_is_counted(tmp_path: Path) -> None:
    """A row of an earlier version has no chances; a request that ended before its decision is none."""
    old = replace(HARD, request_id="old", quality_floor=None)
    undecided = replace(HARD, request_id="none", arm=None)
    edge = replace(
        HARD, request_id="edge", candidates=HARD.candidates.replace('"chance":0.9', '"chance":1e-9')
    )
    span = read_back(tmp_path, [HARD, old, undecided, edge])
    assert (len(span.log), span.num_decided, span.num_unusable) == (1, 3, 2)


def test_a_client_that_named_the_arm_leaves_no_room_for_a_lot(tmp_path: Path) -> None:
    """Its request is forced, and the share of the lot is that of the last one which is not."""
    named = replace(HARD, request_id="named", reason=Reason.CLIENT_MODEL.value, exploration_share=0.0)
    span = read_back(tmp_path, [HARD, named])
    assert [one.is_forced for one in span.log] == [False, True]
    assert span.exploration_share == 0.2


def test_an_escalation_is_what_came_of_the_arm_it_began_with(tmp_path: Path) -> None:
    """The record names the arm that answered; the choice was of the weaker one, at its chance."""
    easy = record(1, 0.1, (0.5, 0.99), TERMS)
    assert easy.arm == "fast"
    escalated = replace(easy, arm="full", reason=Reason.ESCALATION.value, full_share=1.0)
    (one,) = read_back(tmp_path, [escalated], [grade(escalated, 1.0)]).log
    assert (one.arms[one.chosen], one.success) == ("fast", 1.0)
    assert one.propensities[one.chosen] == pytest.approx(easy.propensity)


def test_more_than_asked_for_are_sampled_evenly(tmp_path: Path) -> None:
    """About as many as asked for, from all over the span, the same each time; and what is counted is all."""
    write(tmp_path, 4000)
    span = read(tmp_path, max_decisions=500)
    assert span is not None
    assert span.is_sample
    assert 450 <= len(span.log) <= 550
    assert span.num_decided == 4000
    assert span.requests_per_hour == pytest.approx(3600, rel=1e-3)
    again = read(tmp_path, max_decisions=500)
    assert again == span
    full = sum(one.arms[one.chosen] == "full" for one in span.log) / len(span.log)
    assert full == pytest.approx(0.42, abs=0.08)


def test_the_span_begins_where_it_is_asked_to(tmp_path: Path) -> None:
    """From a moment on; where nothing is left, nothing."""
    write(tmp_path, 100)
    span = read(tmp_path, since=BEGAN + 90)
    assert span is not None
    assert (span.num_decided, span.began, span.ended) == (10, BEGAN + 90, BEGAN + 99)
    assert read(tmp_path, since=BEGAN + 1000) is None
