"""The ledger's database: opened when it is first needed, made where it is absent, written to in whole batches.

No thread and no patience of its own: whoever calls decides what to do when it is unavailable.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
    SQLAlchemyError,
    StatementError,
)

from serving.ledger.credentials import mask_credentials
from serving.ledger.migration import OLDEST_SCHEMA, add_missing_columns
from serving.ledger.tables import SCHEMA_VERSION, Row, attempts, decisions, feedback, meta, metadata

BUSY_TIMEOUT_S: Final = 2.0
"""How long SQLite waits for another process that writes."""

# Readers and the writer do not wait for each other. A commit survives the process's death; the last ones may be
# undone by a power cut, which costs no more than what the buffer would have lost.
_WRITER_PRAGMAS: Final = ("journal_mode = WAL", "synchronous = NORMAL")


class LedgerError(Exception):
    """The ledger cannot be used as it is configured; the message names the remedy."""


class UnavailableError(Exception):
    """The database cannot be written now: locked, full, absent, unreachable. The same batch may be tried again."""


class BadRowError(Exception):
    """The database takes something in this batch for impossible, and always will. Nothing of it was written."""


def ledger_url(url: str | None, home: Path) -> URL:
    """The configured URL, or SQLite in `home`.

    Raises:
        LedgerError: not a URL that SQLAlchemy can read.
    """
    if url is None:
        return URL.create("sqlite", database=str(home / "ledger.sqlite"))
    try:
        return make_url(url)
    except ArgumentError:  # its message repeats the URL, password and all
        raise LedgerError(
            "[ledger] url is not a database URL; write it like sqlite:////var/lib/tierwise/ledger.sqlite "
            "or postgresql+pg8000://user@host/name"
        ) from None


def sqlite_path(url: URL) -> Path | None:
    """The file behind a SQLite URL; None for any other database."""
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if is_file else None


def open_engine(url: URL, pragmas: Sequence[str]) -> Engine:
    """An engine for `url`; connects to nothing yet.

    Args:
        url: of the database.
        pragmas: set on every connection, where it is SQLite.

    Raises:
        LedgerError: the database is of an unknown kind, or its driver is not installed.
    """
    try:
        # Parameters stay out of errors: they hold what clients sent.
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=url.get_backend_name() != "sqlite")
    except NoSuchModuleError:
        raise LedgerError(f"[ledger] url: unknown kind of database {url.drivername!r}") from None
    except ArgumentError as error:
        raise LedgerError(f"[ledger] url: {mask_credentials(str(error))}") from None
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"[ledger] url: the driver {error.name!r} is not installed; `pip install {error.name}`"
        ) from None

    def set_pragmas(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        # The timeout first of all, so that the others wait too.
        for pragma in (f"busy_timeout = {BUSY_TIMEOUT_S * 1e3:.0f}", *pragmas):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    if sqlite_path(url) is not None:
        event.listen(engine, "connect", set_pragmas)
    return engine


class LedgerDatabase:
    """One writer's access to the ledger. Each batch is written exactly once, also where a commit's answer is lost.

    To that end a writer has a row in `meta` with the number of its last batch, moved in the batch's transaction.
    """

    def __init__(self, url: URL) -> None:
        self._engine = open_engine(url, _WRITER_PRAGMAS)
        self._path = sqlite_path(url)
        self._file: tuple[int, int] | None = None
        self._writer = f"writer:{uuid.uuid4().hex}"
        self._is_prepared = False
        self.name = url.render_as_string(hide_password=True)
        """For messages: the URL without its password."""

    def write(
        self,
        number: int,
        *,
        decision_rows: Sequence[Row] = (),
        attempt_rows: Sequence[Row] = (),
        feedback_rows: Sequence[Row] = (),
    ) -> None:
        """Write a batch in one transaction, unless a batch of this number has been.

        Args:
            number: more than that of the batch before, from 1.
            decision_rows: rows of `decisions`.
            attempt_rows: rows of `attempts`.
            feedback_rows: rows of `feedback`.

        Raises:
            UnavailableError: try again later, with the same number and rows.
            BadRowError: try its rows one by one, with numbers of their own.
        """
        with self._errors_classified():
            self._prepare()
            with self._engine.begin() as connection:
                if self._begin_batch(connection, number):
                    if decision_rows:
                        connection.execute(insert(decisions), decision_rows)
                    if attempt_rows:
                        connection.execute(insert(attempts), attempt_rows)
                    if feedback_rows:
                        connection.execute(insert(feedback), feedback_rows)

    def close(self) -> None:
        """Say that this writer ended as it should, and disconnect. Never raises."""
        with suppress(SQLAlchemyError):
            if self._is_prepared:
                with self._engine.begin() as connection:
                    connection.execute(delete(meta).where(meta.c.name == self._writer))
        self._engine.dispose()

    def _begin_batch(self, connection: Connection, number: int) -> bool:
        """Move the writer's number; False where this batch has been written."""
        mine = meta.c.name == self._writer
        moved = connection.execute(update(meta).where(mine, meta.c.value < number).values(value=number))
        if moved.rowcount:
            return True
        if connection.scalar(select(meta.c.value).where(mine)) is None:
            self._is_prepared = False
            raise UnavailableError("the database was replaced by another")
        return False

    def _prepare(self) -> None:
        if self._path is not None:
            self._follow(self._path)
        if self._is_prepared:
            return
        with self._engine.begin() as connection:
            metadata.create_all(connection)
            version = connection.scalar(select(meta.c.value).where(meta.c.name == "schema"))
            if version is None:
                connection.execute(insert(meta).values(name="schema", value=SCHEMA_VERSION))
            elif OLDEST_SCHEMA <= version < SCHEMA_VERSION:
                add_missing_columns(connection)
                connection.execute(update(meta).where(meta.c.name == "schema").values(value=SCHEMA_VERSION))
            elif version != SCHEMA_VERSION:
                raise UnavailableError(
                    f"it has schema {version} and this program writes schema {SCHEMA_VERSION}; "
                    "name another database in [ledger] url, or run the version that made it"
                )
            if connection.scalar(select(meta.c.value).where(meta.c.name == self._writer)) is None:
                connection.execute(insert(meta).values(name=self._writer, value=0))
        self._is_prepared = True

    def _follow(self, path: Path) -> None:
        """Let go of a file that was deleted, and perhaps made anew: writes to it would be seen by nobody."""
        file = _file_id(path)
        if file is None or file != self._file:
            self._engine.dispose()
            self._is_prepared = False
            create_private(path)
            self._file = _file_id(path)

    @contextmanager
    def _errors_classified(self) -> Iterator[None]:
        try:
            yield
        except (UnavailableError, BadRowError):
            raise
        except Exception as error:  # drivers raise what they like: OverflowError, UnicodeEncodeError, …
            kind = BadRowError if self._is_prepared and _is_row_fault(error) else UnavailableError
            self._is_prepared = False  # whatever it was: look at the tables again before the next batch
            raise kind(driver_message(error)) from error


def create_private(path: Path) -> None:
    """Make `path` and its directory where they are absent, for the owner's eyes alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Only a file that is made here is opened: closing one that SQLite has open would drop SQLite's locks.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _file_id(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _is_row_fault(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError | ProgrammingError)
    # Neither SQLAlchemy's nor the system's, or a statement that SQLAlchemy could not even bind.
    return isinstance(error, StatementError) or not isinstance(error, SQLAlchemyError | OSError)


def driver_message(error: BaseException) -> str:
    """What the driver says, without the statement and without the details that quote a row."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
