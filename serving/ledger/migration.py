"""Brings the tables of an earlier schema up to this one, by adding the columns that it lacks.

What an earlier version wrote stays as it is: in the new columns its rows hold null, or the value that they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Column, Connection, Table, inspect, text

from serving.ledger.records import Purpose
from serving.ledger.tables import attempts, decisions

OLDEST_SCHEMA: Final = 2
"""What is brought up to date; earlier ledgers were made by no release."""

_MEANT: Final[Mapping[str, str]] = {"purpose": Purpose.ANSWER.value}
"""What the rows of an earlier schema stand for in a column that holds no null."""


def add_missing_columns(connection: Connection) -> None:
    """Add the columns that the tables lack.

    SQLite commits each by itself, so one that was cut short goes on where it ended.
    """
    for table in (decisions, attempts):
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                connection.execute(text(_addition(connection, table, column)))


def _addition(connection: Connection, table: Table, column: Column[object]) -> str:
    kind = column.type.compile(connection.dialect)
    must = "" if column.nullable else f" NOT NULL DEFAULT '{_MEANT[column.name]}'"
    return f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}{must}"
