"""Tests of serving.ledger.replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from router.decision import Reason
from serving.ledger.database import ledger_url
from serving.ledger.query import open_for_reading
from serving.ledger.records import DecisionRecord
from serving.ledger.replay import Replay, replay
from tests.synthetic_ledger import BEGAN, TERMS, record, write, write_rows

HARD = record(0, 0.9, (0.5, 0.99), TERMS)


def replayed(home: Path, since: float | None = None) -> Replay:
    with open_for_reading(ledger_url(None, home)) as connection:
        return replay(connection, since)


def test_every_decision_comes_out_as_it_did(tmp_path: Path) -> None:
    """A thousand of them, a fifth drawn by lot, each with its own λ; an earlier moment counts more of them."""
    write(tmp_path, 1000)
    found = replayed(tmp_path)
    assert (found.num_same, found.num_other, found.artifacts) == (1000, 0, {"a1": 1000})
    assert replayed(tmp_path, BEGAN + 900).num_same == 100


@pytest.mark.parametrize(
    "other",
    [
        replace(HARD, arm="fast"),
        replace(HARD, price_of_compute=0.9),
        replace(HARD, propensity=0.5),
        replace(HARD, lot=0.15),
        replace(HARD, candidates=HARD.candidates.replace('"chance":0.9', '"chance":0.8')),
    ],
    ids=["arm", "λ", "propensity", "lot", "chance"],
)
def test_one_that_does_not_is_named(tmp_path: Path, other: DecisionRecord) -> None:
    """Whatever was changed in the record, by its request id."""
    write_rows(tmp_path, [HARD, replace(other, request_id="changed")], [])
    found = replayed(tmp_path)
    assert (found.num_same, found.num_other, found.others) == (1, 1, ["changed"])


def test_an_escalation_is_known_by_the_chance_of_where_it_began(tmp_path: Path) -> None:
    """Its record names the arm that answered, at the chance of the one that was chosen."""
    easy = record(1, 0.1, (0.5, 0.99), TERMS)
    write_rows(tmp_path, [replace(easy, arm="full", reason=Reason.ESCALATION.value)], [])
    assert replayed(tmp_path).num_same == 1


def test_what_cannot_be_replayed_is_not_guessed_at(tmp_path: Path) -> None:
    """Decisions of another policy are counted by its version, those of an earlier ledger for themselves."""
    write_rows(
        tmp_path, [HARD, replace(HARD, policy_version="value-0"), replace(HARD, quality_floor=None)], []
    )
    found = replayed(tmp_path)
    assert (found.num_same, found.num_incomplete, found.by_other_policies) == (1, 1, {"value-0": 1})
