"""Tests of serving.ledger.database."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from serving.ledger.database import (
    BadRowError,
    LedgerDatabase,
    LedgerError,
    UnavailableError,
    ledger_url,
    open_engine,
)
from serving.ledger.records import DecisionRecord
from serving.ledger.tables import SCHEMA_VERSION, decision_row

Row = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "ledger.sqlite"


@pytest.fixture
def database(path: Path) -> Iterator[LedgerDatabase]:
    opened = LedgerDatabase(ledger_url(None, path.parent))
    yield opened
    opened.close()


@pytest.fixture
def make_row(make_decision: Callable[..., DecisionRecord]) -> Callable[..., Row]:
    return lambda **changes: decision_row(make_decision(**changes))


def query(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def request_ids(path: Path) -> list[str]:
    return [row[0] for row in query(path, "SELECT request_id FROM decisions ORDER BY id")]


def test_it_is_made_private_and_in_wal_mode(path: Path, database: LedgerDatabase, make_row) -> None:
    """Home, database and its side files are for the owner alone; nothing is made before the first batch."""
    assert not path.exists()
    database.write(1, decision_rows=[make_row()])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert query(path, "PRAGMA journal_mode") == [("wal",)]
    assert query(path, "SELECT value FROM meta WHERE name = 'schema'") == [(SCHEMA_VERSION,)]


def test_a_batch_is_written_once_though_the_commits_answer_was_lost(
    path: Path, database: LedgerDatabase, make_row, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit happened, its answer did not arrive, the batch comes again: its rows are there once."""
    database.write(1, decision_rows=[make_row(request_id="a")])
    dialect = database._engine.dialect
    commit = dialect.do_commit

    def commit_and_fail(connection: Any) -> None:
        commit(connection)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(dialect, "do_commit", commit_and_fail)
    with pytest.raises(UnavailableError, match="disk I/O error"):
        database.write(2, decision_rows=[make_row(request_id="b")])
    monkeypatch.undo()
    database.write(2, decision_rows=[make_row(request_id="b")])
    database.write(3, decision_rows=[make_row(request_id="c")])
    assert request_ids(path) == ["a", "b", "c"]


def test_a_bad_row_writes_nothing_and_is_told_from_an_unavailable_database(
    path: Path, database: LedgerDatabase, make_row
) -> None:
    """A NaN where a number must be and an integer beyond 64 bits are the row's fault; the batch is undone."""
    database.write(1, decision_rows=[make_row(request_id="a")])
    for bad in (make_row(cost=float("nan")), make_row(num_input_chars=2**70)):
        with pytest.raises(BadRowError):
            database.write(2, decision_rows=[make_row(request_id="b"), bad])
    database.write(2, decision_rows=[make_row(request_id="c")])
    assert request_ids(path) == ["a", "c"]


def test_an_error_names_neither_the_statement_nor_what_clients_sent(
    database: LedgerDatabase, make_row
) -> None:
    """Errors are logged, so they hold no values of the row."""
    database.write(1, decision_rows=[make_row()])
    with pytest.raises(BadRowError) as caught:
        database.write(2, decision_rows=[make_row(session="private words", cost=float("nan"))])
    assert "private words" not in str(caught.value)
    assert "private words" not in str(caught.value.__cause__)
    assert "INSERT" not in str(caught.value)


def test_a_locked_database_is_unavailable(
    path: Path, database: LedgerDatabase, make_row, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the write lock nothing is written; afterwards the same batch is."""
    monkeypatch.setattr("serving.ledger.database.BUSY_TIMEOUT_S", 0.05)
    database.write(1, decision_rows=[make_row(request_id="a")])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="locked"):
            database.write(2, decision_rows=[make_row(request_id="b")])
        other.execute("ROLLBACK")
    database.write(2, decision_rows=[make_row(request_id="b")])
    assert request_ids(path) == ["a", "b"]


def test_a_database_that_was_deleted_is_made_again(path: Path, database: LedgerDatabase, make_row) -> None:
    """Rows go into the file that bears the name, not into the one that was unlinked."""
    database.write(1, decision_rows=[make_row(request_id="a")])
    path.unlink()
    database.write(2, decision_rows=[make_row(request_id="b")])
    database.write(3, decision_rows=[make_row(request_id="c")])
    assert request_ids(path) == ["b", "c"]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_database_that_another_writer_made_again_is_shared(
    path: Path, database: LedgerDatabase, make_row
) -> None:
    """The writer that comes second after a deletion follows the first into the new file."""
    other = LedgerDatabase(ledger_url(None, path.parent))
    database.write(1, decision_rows=[make_row(request_id="a")])
    path.unlink()
    other.write(1, decision_rows=[make_row(request_id="b")])
    database.write(2, decision_rows=[make_row(request_id="c")])
    other.write(2, decision_rows=[make_row(request_id="d")])
    other.close()
    assert request_ids(path) == ["b", "c", "d"]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_full_disk_is_unavailable(path: Path, database: LedgerDatabase, make_row) -> None:
    """When there is room again the same batch is written, and nothing of it was there before."""
    database.write(1, decision_rows=[make_row(request_id="a")])
    with database._engine.connect() as connection:
        num_pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {num_pages}")
    batch = [make_row(request_id="b", candidates="x" * 5_000)] * 20
    with pytest.raises(UnavailableError, match="full"):
        database.write(2, decision_rows=batch)
    assert request_ids(path) == ["a"]
    with database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    database.write(2, decision_rows=batch)
    assert request_ids(path) == ["a"] + ["b"] * 20


def test_a_table_that_was_dropped_is_made_again(path: Path, database: LedgerDatabase, make_row) -> None:
    """After an error the tables are looked at anew."""
    database.write(1, decision_rows=[make_row(request_id="a")])
    query(path, "DROP TABLE decisions")
    with pytest.raises(UnavailableError):
        database.write(2, decision_rows=[make_row(request_id="b")])
    database.write(2, decision_rows=[make_row(request_id="b")])
    assert request_ids(path) == ["b"]


def test_a_ledger_of_another_schema_is_left_alone(path: Path, database: LedgerDatabase, make_row) -> None:
    """A newer version's ledger gets no rows of ours; the message says what to do."""
    database.write(1, decision_rows=[make_row()])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    fresh = LedgerDatabase(ledger_url(None, path.parent))
    with pytest.raises(UnavailableError, match=r"schema 99 .* \[ledger\] url"):
        fresh.write(1, decision_rows=[make_row()])
    fresh.close()
    assert len(request_ids(path)) == 1


def test_two_writers_do_not_take_each_other_for_themselves(
    path: Path, database: LedgerDatabase, make_row
) -> None:
    """Each numbers its own batches; a writer that closes takes its number away, and only its own."""
    other = LedgerDatabase(ledger_url(None, path.parent))
    database.write(1, decision_rows=[make_row(request_id="a")])
    other.write(1, decision_rows=[make_row(request_id="b")])
    database.write(2, decision_rows=[make_row(request_id="c")])
    other.close()
    assert request_ids(path) == ["a", "b", "c"]
    assert query(path, "SELECT value FROM meta WHERE name LIKE 'writer:%'") == [(2,)]
    database.close()
    assert query(path, "SELECT value FROM meta WHERE name LIKE 'writer:%'") == []


def test_a_home_that_cannot_be_made_is_unavailable(tmp_path: Path, make_row) -> None:
    """An absent disk is waited for like a locked one."""
    (tmp_path / "file").write_text("not a directory")
    database = LedgerDatabase(ledger_url(None, tmp_path / "file" / "home"))
    with pytest.raises(UnavailableError):
        database.write(1, decision_rows=[make_row()])
    database.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("not a url with hunter2", "is not a database URL; write it like"),
        ("nosuchbase://user:hunter2@host/name", "unknown kind of database 'nosuchbase'"),
        ("mysql+nosuchdriver://user:hunter2@host/name", "unknown kind of database 'mysql.nosuchdriver'"),
        ("sqlite://user:hunter2@host/name", "Invalid SQLite URL"),
        ("oracle+cx_oracle://user:hunter2@host/name", "driver 'cx_Oracle' is not installed; `pip install"),
    ],
)
def test_a_url_that_can_never_work_is_said_with_its_remedy(tmp_path: Path, url: str, message: str) -> None:
    """Wrong configuration fails at once, unlike a database that is away, and without the password."""
    with pytest.raises(LedgerError, match=message) as caught:
        open_engine(ledger_url(url, tmp_path), ())
    assert "hunter2" not in str(caught.value)


def test_the_name_for_messages_has_no_password(tmp_path: Path) -> None:
    """What is logged of the URL is not a credential."""
    database = LedgerDatabase(ledger_url("sqlite:////tmp/x.sqlite", tmp_path))
    assert database.name == "sqlite:////tmp/x.sqlite"
    assert "hunter2" not in ledger_url("postgresql://user:hunter2@host/name", tmp_path).render_as_string()


def test_nothing_is_connected_before_the_first_batch(tmp_path: Path) -> None:
    """Making the object is quick and cannot fail for a database that is away."""
    database = LedgerDatabase(ledger_url(None, tmp_path))
    connected = []
    event.listen(database._engine, "connect", lambda *_: connected.append(True))
    database.close()
    assert not connected
