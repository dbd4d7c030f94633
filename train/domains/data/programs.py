"""Write code that computes a statistic from a CSV; judged in the sandbox on tables that no prompt shows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from train.domains.base import Family, Item, Verdict
from train.domains.code.composing import Case, loaded
from train.domains.code.judging import hidden_cases, judge_function
from train.domains.data.tables import CITIES, PRODUCTS, orders
from train.domains.task import Task, TaskDomain
from train.transcript import Transcript

NUM_HIDDEN: Final = 10
TOLERANCE: Final = 1e-4
NAME: Final = "answer"
_HEAD: Final = 'def answer(text):\n    rows = [line.split(",") for line in text.splitlines()[1:]]\n'
_NUMBER: Final = {"quantity": 3, "price": 4}

Program = tuple[str, str]
"""What is to be computed, and the lines that do it from `rows`."""


def _column(rng: random.Random) -> Program:
    name, what, expression = rng.choice((
        ("quantity", "sum", "sum(v)"),
        ("quantity", "mean", "sum(v) / len(v)"),
        ("price", "sum", "sum(v)"),
        ("price", "mean", "sum(v) / len(v)"),
        ("price", "maximum", "max(v)"),
        ("price", "minimum", "min(v)"),
    ))  # fmt: skip
    return (
        f"the {what} of {name}",
        f"    v = [int(r[{_NUMBER[name]}]) for r in rows]\n    return {expression}",
    )


def _filtered(rng: random.Random) -> Program:
    place, name, value = rng.choice(((1, "city", rng.choice(CITIES)), (2, "product", rng.choice(PRODUCTS))))
    column = rng.choice(sorted(_NUMBER))
    what, expression = rng.choice((
        ("sum", "sum(v)"),
        ("maximum", "max(v, default=0)"),
        ("mean", "sum(v) / len(v) if v else 0"),
    ))  # fmt: skip
    return (
        f"the {what} of {column} over the rows with {name} {value}, or 0 if there is none",
        f'    v = [int(r[{_NUMBER[column]}]) for r in rows if r[{place}] == "{value}"]\n    return {expression}',
    )


def _grouped(rng: random.Random) -> Program:
    place, name = rng.choice(((1, "city"), (2, "product")))
    what, function = rng.choice((("largest", "max"), ("smallest", "min")))
    measure, product = rng.choice((
        ("revenue (quantity times price)", "int(r[3]) * int(r[4])"),
        ("quantity", "int(r[3])"),
    ))  # fmt: skip
    return (
        f"the {what} total {measure} of any {name} in the table",
        "    totals = {}\n    for r in rows:\n"
        f"        totals[r[{place}]] = totals.get(r[{place}], 0) + {product}\n"
        f"    return {function}(totals.values())",
    )


def _spread(rng: random.Random) -> Program:
    words, expression = rng.choice((
        ("the Pearson correlation of quantity and price", "statistics.correlation(q, p)"),
        ("the slope of the least-squares line of price on quantity", "statistics.linear_regression(q, p).slope"),
        (
            "the sample standard deviation of the revenue (quantity times price) of the rows",
            "statistics.stdev(a * b for a, b in zip(q, p))",
        ),
        ("the median of quantity times price", "statistics.median(a * b for a, b in zip(q, p))"),
        ("the mean price of a piece, weighted by quantity", "sum(a * b for a, b in zip(q, p)) / sum(q)"),
        ("the number of different pairs of city and product", "len({(r[1], r[2]) for r in rows})"),
    ))  # fmt: skip
    columns = "    q = [int(r[3]) for r in rows]\n    p = [int(r[4]) for r in rows]\n"
    return words, f"    import statistics\n{columns}    return {expression}"


_PROGRAMS: Final[tuple[Callable[[random.Random], Program], ...]] = (_column, _filtered, _grouped, _spread)


def _drawn(rng: random.Random, level: int) -> Task:
    while True:
        words, lines = _PROGRAMS[level](rng)
        function = loaded(_HEAD + lines, NAME)
        tables = [orders(rng, rng.randint(5, 40), CITIES, PRODUCTS).csv for _ in range(NUM_HIDDEN)]
        cases: list[Case] = [[[text], function(text)] for text in tables]
        if max(Counter(repr(value) for _, value in cases).values()) <= NUM_HIDDEN // 2:
            break
    shown = orders(rng, 4, CITIES, PRODUCTS)
    return Task(
        f"Write a Python function {NAME}(text) that takes a table as CSV, such as\n{shown.csv}\n"
        f"and returns {words}. Other tables have the same columns. "
        "Use the standard library alone. Answer with the code only.",
        _HEAD + lines,
        {"function": NAME, "cases": list(cases)},
    )


def _judged(item: Item, transcript: Transcript) -> Verdict:
    return judge_function(transcript.answer, NAME, hidden_cases(item), tolerance=TOLERANCE)


DOMAINS: Final = (
    TaskDomain(
        "data_code",
        "Write code that computes a statistic from a CSV; run in a sandbox on hidden tables.",
        _drawn,
        _judged,
        Family.DATA_SCIENCE,
    ),
)
