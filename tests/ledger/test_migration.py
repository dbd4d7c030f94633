"""Tests of serving.ledger.migration."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from serving.ledger.database import LedgerDatabase, LedgerError, ledger_url
from serving.ledger.query import decided_request, open_for_reading, tail
from serving.ledger.records import AttemptRecord, DecisionRecord
from serving.ledger.summary import summarize
from serving.ledger.tables import SCHEMA_VERSION, attempt_row, decision_row, metadata

SCHEMA_2 = (Path(__file__).parent / "schema_2.sql").read_text()
"""A whole ledger, as a gateway of schema 2 wrote it: one request with its attempt and its grade."""

MakeDecision = Callable[..., DecisionRecord]
MakeAttempt = Callable[..., AttemptRecord]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The home of a ledger of schema 2."""
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        connection.executescript(SCHEMA_2)
    return tmp_path


def write(home: Path, decision: DecisionRecord, attempt: AttemptRecord) -> None:
    database = LedgerDatabase(ledger_url(None, home))
    database.write(
        1, decision_rows=[decision_row(decision)], attempt_rows=[attempt_row(attempt, recorded_at=2.0)]
    )
    database.close()


def query(home: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(home / "ledger.sqlite")) as connection:
        return connection.execute(statement).fetchall()


def test_the_first_batch_brings_it_up_to_date(
    old: Path, make_decision: MakeDecision, make_attempt: MakeAttempt
) -> None:
    """Old rows stay, with null in what they lack; new ones are whole; the columns are those of a ledger made anew."""
    write(old, make_decision(request_id="new-1"), make_attempt(request_id="new-1"))
    assert query(old, "SELECT value FROM meta WHERE name = 'schema'") == [(SCHEMA_VERSION,)]
    assert query(old, "SELECT request_id, quality_floor, lot, engine_seconds FROM decisions") == [
        ("old-1", None, None, None),
        ("new-1", 0.0, 0.75, 1.2),
    ]
    assert query(old, "SELECT request_id, purpose FROM attempts") == [
        ("old-1", "answer"),
        ("new-1", "answer"),
    ]
    for name, table in metadata.tables.items():
        there = {row[1] for row in query(old, f"PRAGMA table_info({name})")}
        assert there == {column.name for column in table.columns}


def test_one_that_was_cut_short_goes_on(
    old: Path, make_decision: MakeDecision, make_attempt: MakeAttempt
) -> None:
    """A column that is there already is not added twice."""
    with closing(sqlite3.connect(old / "ledger.sqlite")) as connection:
        connection.execute("ALTER TABLE decisions ADD COLUMN quality_floor DOUBLE")
        connection.commit()
    write(old, make_decision(request_id="new-1"), make_attempt(request_id="new-1"))
    assert query(old, "SELECT quality_floor FROM decisions ORDER BY id") == [(None,), (0.0,)]


def test_it_is_read_as_it_is(old: Path) -> None:
    """Whoever only looks changes nothing, and sees what there is."""
    with open_for_reading(ledger_url(None, old)) as connection:
        (request,) = tail(connection, 5)
        assert (request.request_id, request.prompt_tokens) == ("old-1", 12)
        summary = summarize(connection)
        assert summary.total is not None
        assert summary.total.completion_tokens == 34
        decided = decided_request(connection, "old-1")
        assert decided is not None
        assert decided["artifact_version"] == "structure-1"
    assert query(old, "SELECT value FROM meta WHERE name = 'schema'") == [(2,)]


def test_what_it_does_not_hold_is_said(old: Path) -> None:
    """A reader that needs more is told how that comes about."""
    with (
        pytest.raises(LedgerError, match=r"schema 2, which does not hold this yet.*tierwise up"),
        open_for_reading(ledger_url(None, old), at_least=3),
    ):
        pass
