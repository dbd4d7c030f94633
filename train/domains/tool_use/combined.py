"""One errand over several tools: look up, reckon, write down."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, Turn, calling
from train.domains.words import THINGS, made_up_words
from train.tools.calculator import decimal, evaluate
from train.transcript import JsonValue


class CombinedDomain(ToolDomain):
    """A price from a database, a rate from a store; from level 1 a number from a file; at level 2 a note."""

    name: ClassVar[str] = "tool_combined"
    description: ClassVar[str] = (
        "Bring together what several tools know; checked by the answer and by all their states."
    )

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        things = rng.sample(THINGS, 6)
        prices = rng.sample(range(101, 999), 6)
        thing, price = things[0], prices[0]
        rows = [[name, value] for name, value in zip(things, prices, strict=True)]
        rng.shuffle(rows)
        code = made_up_words(rng, 1)[0]
        rate, num = rng.randrange(11, 99), rng.randrange(101, 999)
        tools: dict[str, dict[str, JsonValue]] = {
            "calculator": {},
            "sql": {
                "tables": {
                    "prices": {"columns": [["thing", "TEXT"], ["price", "INTEGER"]], "rows": _plain(rows)}
                }
            },
            "store": {"entries": {f"rate/{code}": str(rate), f"rate/{code}x": str(rate + 3)}},
        }
        expression = f"{num} * {price} * {rate}"
        looks: Turn = (
            calling("sql_query", statement=f"SELECT price FROM prices WHERE thing = '{thing}'"),  # noqa: S608
            calling("store_get", key=f"rate/{code}"),
        )
        told = f"{num} of {thing} are bought"
        if level >= 1:
            tools["files"] = {"files": {f"{code}.txt": f"pieces: {num}\nplace: {things[1]}\n"}}
            looks = (*looks, calling("files_read", path=f"{code}.txt"))
            told = f"As many of {thing} as {code}.txt says are bought"
        result = decimal(evaluate(expression))
        turns: tuple[Turn, ...] = (looks, (calling("calculator_evaluate", expression=expression),))
        noted = ""
        if level == 2:
            turns = (*turns, (calling("store_set", key=f"paid/{code}", value=result),))
            noted = f" Note the product in the store under paid/{code}."
        return ToolTask(
            prompt=f"{told}, at the price that the database's table prices has for it, times the rate that "
            "the store has "
            f"under rate/{code}. What is the product of number, price and rate?{noted} Answer with the number.",
            tools=tools,
            turns=turns,
            answer=result,
            reading=Reading.NUMBER,
        )


def _plain(rows: list[Any]) -> list[JsonValue]:
    return [[*row] for row in rows]


DOMAIN: Final[Domain] = CombinedDomain()
