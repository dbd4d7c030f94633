"""Tests of serving.ledger.query."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from serving.ledger.database import LedgerDatabase, LedgerError, ledger_url
from serving.ledger.query import open_for_reading, tail
from serving.ledger.records import AttemptRecord, DecisionRecord, Outcome, Usage
from serving.ledger.tables import SCHEMA_VERSION, attempt_row, attempts, decision_row

MakeDecision = Callable[..., DecisionRecord]
MakeAttempt = Callable[..., AttemptRecord]


def write(home: Path, decided: list[DecisionRecord], attempted: list[AttemptRecord] | None = None) -> None:
    database = LedgerDatabase(ledger_url(None, home))
    database.write(
        1,
        decision_rows=[decision_row(record) for record in decided],
        attempt_rows=[attempt_row(record, recorded_at=2_000.0) for record in attempted or []],
    )
    database.close()


def test_tail_gives_the_last_requests_oldest_first(tmp_path: Path, make_decision: MakeDecision) -> None:
    """As `tail` does; and after a row that was seen, only what is newer."""
    write(tmp_path, [make_decision(request_id=str(number)) for number in range(10)])
    with open_for_reading(ledger_url(None, tmp_path)) as connection:
        last = tail(connection, 3)
        assert [request.request_id for request in last] == ["7", "8", "9"]
        assert [request.request_id for request in tail(connection, 99, after_id=last[0].id)] == ["8", "9"]
        assert tail(connection, 99, after_id=last[-1].id) == []


def test_a_request_carries_the_tokens_of_all_its_attempts(
    tmp_path: Path, make_decision: MakeDecision, make_attempt: MakeAttempt
) -> None:
    """A failed attempt's tokens are paid for too; the first token is that of the attempt the client saw."""
    failed = make_attempt(
        usage=Usage(prompt_tokens=12), outcome=Outcome.FAILURE, is_committed=False, first_token_s=0.1
    )
    answered = make_attempt(attempt=1, first_token_s=0.7)
    write(tmp_path, [make_decision(), make_decision(request_id="refused", status=401)], [failed, answered])
    with open_for_reading(ledger_url(None, tmp_path)) as connection:
        request, refused = tail(connection, 2)
    assert (request.prompt_tokens, request.completion_tokens, request.ttft_s) == (24, 34, 0.7)
    assert (refused.prompt_tokens, refused.completion_tokens, refused.ttft_s) == (None, None, None)


def test_an_answer_sent_whole_has_no_first_token(
    tmp_path: Path, make_decision: MakeDecision, make_attempt: MakeAttempt
) -> None:
    """Only streams have a time to their first token."""
    write(tmp_path, [make_decision(is_streaming=False)], [make_attempt(first_token_s=1.2)])
    with open_for_reading(ledger_url(None, tmp_path)) as connection:
        assert tail(connection, 1)[0].ttft_s is None


def test_reading_changes_nothing(tmp_path: Path, make_decision: MakeDecision) -> None:
    """The connection refuses to write, so that a look cannot hurt."""
    write(tmp_path, [make_decision()])
    with (
        pytest.raises(LedgerError, match="readonly"),
        open_for_reading(ledger_url(None, tmp_path)) as connection,
    ):
        connection.execute(attempts.delete())


def test_a_reader_and_a_writer_do_not_wait_for_each_other(
    tmp_path: Path, make_decision: MakeDecision
) -> None:
    """While a read is open, batches go in; it sees the state at which it began."""
    write(tmp_path, [make_decision(request_id="a")])
    with open_for_reading(ledger_url(None, tmp_path)) as connection:
        assert len(tail(connection, 9)) == 1
        write(tmp_path, [make_decision(request_id="b")])
        connection.rollback()
        assert [request.request_id for request in tail(connection, 9)] == ["a", "b"]


def test_a_missing_ledger_is_said_with_its_remedy_and_not_made(tmp_path: Path) -> None:
    """Looking for a ledger in the wrong place leaves no trace."""
    with (
        pytest.raises(LedgerError, match=r"no ledger at .*tierwise up.*--home or --url"),
        open_for_reading(ledger_url(None, tmp_path / "nowhere")),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_said(tmp_path: Path) -> None:
    """Neither a text file nor another program's database is read as an empty ledger, or touched."""
    (tmp_path / "ledger.sqlite").write_text("not a database, but long enough to look at" * 100)
    with (
        pytest.raises(LedgerError, match="file is not a database"),
        open_for_reading(ledger_url(None, tmp_path)),
    ):
        pass
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE something (x)")
    before = other.read_bytes()
    with (
        pytest.raises(LedgerError, match="holds no ledger"),
        open_for_reading(ledger_url(f"sqlite:///{other}", tmp_path)),
    ):
        pass
    assert other.read_bytes() == before


def test_a_ledger_of_another_schema_is_not_guessed_at(tmp_path: Path, make_decision: MakeDecision) -> None:
    """The message says both versions."""
    write(tmp_path, [make_decision()])
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    with (
        pytest.raises(LedgerError, match=f"schema 99 and this program reads schema {SCHEMA_VERSION}"),
        open_for_reading(ledger_url(None, tmp_path)),
    ):
        pass
