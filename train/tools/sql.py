"""A small SQL database in memory. Its tables are given; rows can be read and changed, and nothing else reached.

An authorizer lets through reading and changing rows and a list of pure functions; limits on statements, values, rows
and steps of SQLite's machine make every statement end, at the same place each time.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import record, told
from train.transcript import JsonValue

MAX_STATEMENT_CHARS: Final = 2_000
MAX_ROWS: Final = 200
"""Of a result."""
MAX_TABLE_ROWS: Final = 2_000
MAX_VALUE_BYTES: Final = 10_000
MAX_STEPS: Final = 300_000
"""Of SQLite's machine; the limit is by steps rather than by time so that it is the same on every machine."""
STEPS_A_CHECK: Final = 1_000

# fmt: off
FUNCTIONS: Final = frozenset(
    {
        "abs", "avg", "coalesce", "count", "group_concat", "ifnull", "iif", "instr", "length", "like",
        "lower", "ltrim", "max", "min", "nullif", "replace", "round", "rtrim", "sign", "substr",
        "substring", "sum", "total", "trim", "typeof", "upper", "row_number", "rank", "dense_rank", "lag",
        "lead", "first_value", "last_value", "ntile",
    }
)
# fmt: on
_READING: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_CHANGING: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_READS: Final = ("select", "with", "values")
_CHANGES: Final = ("insert", "update", "delete", "replace", "with")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STATEMENT: Final[dict[str, JsonValue]] = {"type": "string", "minLength": 1, "maxLength": MAX_STATEMENT_CHARS}

Table = Mapping[str, Any]
"""`columns`: [name, type] each; `rows`: lists."""


class Sql:
    """The database."""

    name: ClassVar[str] = "sql"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation("tables", "The tables and their columns.", record(), is_reading=True),
        Operation(
            "query", "Rows that a SELECT finds (SQLite).", record({"statement": _STATEMENT}), is_reading=True
        ),
        Operation(
            "change",
            "Do one INSERT, UPDATE or DELETE (SQLite).",
            record({"statement": _STATEMENT}),
            is_reading=False,
        ),
    )

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables: dict[str, dict[str, Any]] = {
            name: {
                "columns": [list(column) for column in table["columns"]],
                "rows": [*map(list, table["rows"])],
            }
            for name, table in tables.items()
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """As `Tool.from_state`; `tables` by name."""
        return cls(state.get("tables", {}))

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        done: dict[str, Callable[..., ToolResult]] = {
            "tables": self._schema,
            "query": self._query,
            "change": self._change,
        }
        return done[operation](**arguments)

    def state(self) -> dict[str, JsonValue]:
        """As `Tool.state`."""
        return {
            "tables": {
                name: {
                    "columns": [[*column] for column in table["columns"]],
                    "rows": [[*row] for row in table["rows"]],
                }
                for name, table in self._tables.items()
            }
        }

    def rows(self, statement: str) -> list[list[Any]]:
        """What a SELECT finds.

        Raises:
            ToolError: it is refused, wrong, too long a work, or finds too many rows.
        """
        return self._found(statement)[1]

    def _schema(self) -> ToolResult:
        return told(schema_text(self._tables))

    def _query(self, statement: str) -> ToolResult:
        columns, rows = self._found(statement)
        return told({"columns": list(columns), "rows": list(rows)})

    def _found(self, statement: str) -> tuple[list[str], list[list[Any]]]:
        _check_begins(statement, _READS, "SELECT")
        with _database(self._tables, _READING) as database:
            cursor = database.execute(statement)
            rows = [list(row) for row in cursor.fetchmany(MAX_ROWS + 1)]
            if len(rows) > MAX_ROWS:
                raise ToolError(f"more than {MAX_ROWS} rows: ask for fewer")
            if any(isinstance(value, bytes) for row in rows for value in row):
                raise ToolError("a value is no text and no number")
            return [column[0] for column in cursor.description], rows

    def _change(self, statement: str) -> ToolResult:
        _check_begins(statement, _CHANGES, "INSERT, UPDATE or DELETE")
        with _database(self._tables, _READING | _CHANGING) as database:
            cursor = database.execute(statement)
            if cursor.description is not None or cursor.rowcount < 0:
                raise ToolError("this changes no rows, or asks for some")
            changed = {name: _dumped(database, name) for name in self._tables}
        for name, rows in changed.items():
            self._tables[name]["rows"] = rows
        return told(f"{cursor.rowcount} rows changed")


def schema_text(tables: Mapping[str, Table]) -> str:
    """The tables as CREATE statements, one a line."""
    return "\n".join(
        f"CREATE TABLE {name} ({', '.join(' '.join(column) for column in table['columns'])});"
        for name, table in tables.items()
    )


def _check_begins(statement: str, verbs: tuple[str, ...], what: str) -> None:
    """No EXPLAIN, whose rows are SQLite's own matter."""
    if not statement.lstrip().lower().startswith(verbs):
        raise ToolError(f"this is no {what}")


@contextmanager
def _database(tables: Mapping[str, Table], allowed: frozenset[int]) -> Iterator[sqlite3.Connection]:
    """A database with these tables, in which only this is allowed; SQLite's errors become evidence."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for name, table in tables.items():
            _filled(database, name, table)
        _restrict(database, allowed)
        try:
            yield database
        except sqlite3.OperationalError as error:
            said = f"it takes more than {MAX_STEPS} steps" if str(error) == "interrupted" else str(error)
            raise ToolError(f"SQLite: {said}") from None
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, ValueError) as error:
            raise ToolError(f"SQLite: {error}") from None


def _filled(database: sqlite3.Connection, name: str, table: Table) -> None:
    assert _NAME.fullmatch(name), "tables come from generators"
    database.execute(schema_text({name: table}))
    places = ", ".join("?" * len(table["columns"]))
    database.executemany(f"INSERT INTO {name} VALUES ({places})", table["rows"])  # noqa: S608  names are ours


def _dumped(database: sqlite3.Connection, name: str) -> list[list[Any]]:
    rows = [list(row) for row in database.execute(f"SELECT * FROM {name}")]  # noqa: S608  names are ours
    if len(rows) > MAX_TABLE_ROWS:
        raise ToolError(f"{name} would have {len(rows)} rows, more than {MAX_TABLE_ROWS}")
    if any(isinstance(value, bytes) for row in rows for value in row):
        raise ToolError("a value is no text and no number")
    return rows


def _restrict(database: sqlite3.Connection, allowed: frozenset[int]) -> None:
    num_checks = 0

    def is_spent() -> bool:
        nonlocal num_checks
        num_checks += 1
        return num_checks > MAX_STEPS // STEPS_A_CHECK

    def authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_OK if (second or "").lower() in FUNCTIONS else sqlite3.SQLITE_DENY
        is_schema = (first or "").lower().startswith("sqlite_")
        return sqlite3.SQLITE_OK if action in allowed and not is_schema else sqlite3.SQLITE_DENY

    for limit, value in _limits():
        database.setlimit(limit, value)
    database.set_authorizer(authorize)
    database.set_progress_handler(is_spent, STEPS_A_CHECK)


def _limits() -> Sequence[tuple[int, int]]:
    return (
        (sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 10),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    )
