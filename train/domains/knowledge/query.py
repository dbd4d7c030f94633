"""Write a query. It is run on databases that the task does not show, so that only its meaning counts.

The databases are drawn until every near miss (a condition left out, a bound beside it) finds other rows in one of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.drawn import DrawnDomain, Question
from train.domains.words import CITIES, THINGS, people
from train.tools.base import ToolError
from train.tools.sql import MAX_STATEMENT_CHARS, Sql, schema_text
from train.transcript import Transcript
from train.verifiers.answers import final_block, judged

Tables = dict[str, Any]
Asked = tuple[str, str, tuple[str, ...]]
"""The question, its query, and near misses."""

# What tables and columns may be called, so that no query can be known by heart.
_MEMBERS: Final = ("members", "guests", "readers", "tenants", "pupils", "players")
_LOANS: Final = ("loans", "rentals", "leases", "bookings")
_AGES: Final = ("age", "score", "rank")
_DAYS: Final = ("days", "hours", "weeks")


@dataclass(frozen=True, slots=True)
class _Names:
    """Of one item's schema, and of what is asked for."""

    members: str
    loans: str
    age: str
    days: str
    cities: tuple[str, ...]
    things: tuple[str, ...]


class QueryDomain(DrawnDomain):
    """Level 0 filters, 1 groups, 2 joins and groups, 3 finds what is missing from a join."""

    name: ClassVar[str] = "knowledge_sql"
    description: ClassVar[str] = (
        "Write a SELECT for a schema; its rows must be right on databases that are not shown."
    )
    family: ClassVar[Family] = Family.KNOWLEDGE

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        names = _Names(
            rng.choice(_MEMBERS),
            rng.choice(_LOANS),
            rng.choice(_AGES),
            rng.choice(_DAYS),
            tuple(rng.sample(CITIES, 8)),
            tuple(rng.sample(THINGS, 8)),
        )
        asked, query, near = (_filter, _group, _join, _lack)[level](names, rng.randrange(2, 12))
        databases = _telling_apart(rng, names, query, near)
        return Question(
            prompt=f"{schema_text(databases[0])}\n\n{asked} Write one SELECT for SQLite, and nothing else.",
            answer=query,
            data={"databases": [*databases]},
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """The whole answer is the statement; the order of its rows does not matter."""
        statement = " ".join(final_block(transcript.answer).split()).rstrip("; ")
        if not 0 < len(statement) <= MAX_STATEMENT_CHARS:
            return judged(False, "there is no statement, or it is too long")
        data: Mapping[str, Any] = item.data
        for tables in data["databases"]:
            database = Sql(tables)
            try:
                if not statement.lower().startswith(("select", "with", "values")):
                    raise ToolError("this is no SELECT")
                rows = database.rows(statement)
            except ToolError as error:
                return judged(False, str(error))
            if _ordered(rows) != _ordered(database.rows(item.answer)):
                return judged(False, "it finds other rows than were asked for")
        return judged(True)


def _telling_apart(rng: random.Random, names: _Names, query: str, near: tuple[str, ...]) -> list[Tables]:
    """At least two databases in which the query finds different rows, and in one of which no near miss does as well."""
    kept: list[Tables] = []
    found: list[list[str]] = []
    left = {*near}
    while left or len(kept) < 2:
        tables = _tables(rng, names)
        database = Sql(tables)
        rows = _ordered(database.rows(query))
        missed = {each for each in left if _ordered(database.rows(each)) != rows}
        if rows and rows not in found and (missed or len(kept) < 2):
            kept.append(tables)
            found.append(rows)
            left -= missed
    return kept


# ruff: noqa: S608  the parts of these queries are drawn above
def _filter(names: _Names, least: int) -> Asked:
    query = (
        f"SELECT name FROM {names.members} WHERE city = '{names.cities[0]}' AND {names.age} >= {least + 30}"
    )
    return (
        f"The names of all {names.members} from {names.cities[0]} with {names.age} {least + 30} or more.",
        query,
        (
            query.replace(">=", ">"),
            query.split(" AND ")[0],
            query.replace(f"city = '{names.cities[0]}' AND ", ""),
        ),
    )


def _group(names: _Names, least: int) -> Asked:
    query = (
        f"SELECT thing, sum({names.days}) FROM {names.loans} GROUP BY thing HAVING count(*) >= {least + 2}"
    )
    return (
        f"For each thing that has at least {least + 2} {names.loans}, the thing and the sum of the {names.days}.",
        query,
        (query.replace(">=", ">"), query.split(" HAVING ")[0], query.replace("sum", "max")),
    )


def _join(names: _Names, least: int) -> Asked:
    members, loans, days, thing = names.members, names.loans, names.days, names.things[0]
    query = (
        f"SELECT city, count(*) FROM {loans} JOIN {members} ON {members}.id = {loans}.member "
        f"WHERE thing = '{thing}' AND {days} > {least} GROUP BY city"
    )
    return (
        f"For each city, the city and the number of {loans} of a {thing} for more than {least} {days} "
        f"by {members} from there; cities without any are left out.",
        query,
        (
            query.replace(" > ", " >= "),
            query.replace(f"AND {days} > {least} ", ""),
            query.replace(f"thing = '{thing}' AND ", ""),
            query.replace("count(*)", f"sum({days})"),
        ),
    )


def _lack(names: _Names, least: int) -> Asked:
    members, loans, thing = names.members, names.loans, names.things[0]
    condition = f"thing = '{thing}' AND {names.days} >= {least}"
    query = f"SELECT name FROM {members} WHERE id NOT IN (SELECT member FROM {loans} WHERE {condition})"
    return (
        f"The names of the {members} who have no {loans} of a {thing} for {least} {names.days} or more.",
        query,
        (
            query.replace(">=", ">"),
            query.replace("NOT IN", "IN"),
            query.replace(condition, f"thing = '{thing}'"),
            query.replace(condition, f"{names.days} >= {least}"),
            f"SELECT name FROM {members} JOIN {loans} ON {members}.id = member WHERE NOT ({condition})",
        ),
    )


def _tables(rng: random.Random, names: _Names) -> Tables:
    members = [
        [id, name, rng.choice(names.cities), rng.randrange(16, 70)]
        for id, name in enumerate(people(rng, 30), 1)
    ]
    loans = [
        [id, rng.randrange(1, 31), rng.choice(names.things), rng.randrange(1, 20)]
        for id in range(1, 1 + rng.randrange(70, 110))
    ]
    return {
        names.members: {
            "columns": [["id", "INTEGER"], ["name", "TEXT"], ["city", "TEXT"], [names.age, "INTEGER"]],
            "rows": members,
        },
        names.loans: {
            "columns": [["id", "INTEGER"], ["member", "INTEGER"], ["thing", "TEXT"], [names.days, "INTEGER"]],
            "rows": loans,
        },
    }


def _ordered(rows: list[list[Any]]) -> list[str]:
    return sorted(repr([float(value) if isinstance(value, int) else value for value in row]) for row in rows)


DOMAIN: Final[Domain] = QueryDomain()
