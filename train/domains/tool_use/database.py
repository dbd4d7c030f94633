"""Questions to a database that only it can answer, and changes of its rows."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.domains.words import CITIES, THINGS, people
from train.tools.sql import Sql


class DatabaseDomain(ToolDomain):
    """Level 0 filters one table, 1 joins two, 2 changes rows and tells a sum afterwards."""

    name: ClassVar[str] = "tool_sql"
    description: ClassVar[str] = (
        "Query or change a database; checked by the answer and by the rows at the end."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        tables = _tables(rng, 12 + 12 * level)
        return (self._filtered, self._joined, self._changed)[level](rng, tables)

    def _filtered(self, rng: random.Random, tables: dict[str, Any]) -> ToolTask:
        thing = rng.choice([row[2] for row in tables["sales"]["rows"]])
        least = rng.randrange(10, 60)
        query = f"SELECT coalesce(sum(pieces), 0) FROM sales WHERE thing = '{thing}' AND price >= {least}"  # noqa: S608
        asked = f"How many pieces of {thing} were sold at a price of at least {least} each?"
        return self._asked(tables, asked, (), query)

    def _joined(self, rng: random.Random, tables: dict[str, Any]) -> ToolTask:
        city = rng.choice([row[2] for row in tables["sellers"]["rows"]])
        few = rng.randrange(2, 20)
        query = (
            "SELECT coalesce(sum(pieces * price), 0) FROM sales JOIN sellers ON sellers.id = sales.seller "  # noqa: S608
            f"WHERE city = '{city}' AND pieces >= {few}"
        )
        asked = f"What did sales of {few} pieces or more by sellers from {city} bring in, pieces times price?"
        return self._asked(tables, asked, (), query)

    def _changed(self, rng: random.Random, tables: dict[str, Any]) -> ToolTask:
        thing, more = rng.choice([row[2] for row in tables["sales"]["rows"]]), rng.randrange(2, 30)
        few = rng.randrange(4, 8)
        changes = (
            f"UPDATE sales SET price = price + {more} WHERE thing = '{thing}'",  # noqa: S608
            f"DELETE FROM sales WHERE pieces < {few}",  # noqa: S608
        )
        asked = (
            f"Raise the price of every sale of {thing} by {more}, and delete all sales of fewer than {few} "
            "pieces. What is then the sum of all prices?"
        )
        return self._asked(tables, asked, changes, "SELECT sum(price) FROM sales")

    def _asked(self, tables: dict[str, Any], asked: str, changes: tuple[str, ...], query: str) -> ToolTask:
        database = Sql(tables)
        for change in changes:
            database.apply("change", {"statement": change})
        [[value]] = database.rows(query)
        return ToolTask(
            prompt=f"{asked} Look it up in the database. Answer with the number.",
            tools={"sql": {"tables": tables}},
            turns=one_by_one(
                calling("sql_tables"),
                *(calling("sql_change", statement=change) for change in changes),
                calling("sql_query", statement=query),
            ),
            answer=str(value),
            reading=Reading.NUMBER,
        )


def _tables(rng: random.Random, num_sales: int) -> dict[str, Any]:
    cities = rng.sample(CITIES, 4)
    sellers = [[id, name, rng.choice(cities)] for id, name in enumerate(people(rng, 6), 1)]
    things = rng.sample(THINGS, 5)
    sales = [
        [id, rng.randrange(1, 7), rng.choice(things), rng.randrange(1, 40), rng.randrange(5, 100)]
        for id in range(1, num_sales + 1)
    ]
    return {
        "sellers": {"columns": [["id", "INTEGER"], ["name", "TEXT"], ["city", "TEXT"]], "rows": sellers},
        "sales": {
            "columns": [
                ["id", "INTEGER"],
                ["seller", "INTEGER"],
                ["thing", "TEXT"],
                ["pieces", "INTEGER"],
                ["price", "INTEGER"],
            ],
            "rows": sales,
        },
    }


DOMAIN: Final[Domain] = DatabaseDomain()
