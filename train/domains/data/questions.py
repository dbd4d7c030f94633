"""Questions on tables: filters and groups, two tables joined, and counts across two columns."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from typing import Final

from train.domains.base import Family
from train.domains.data.asking import judge, label_task, number_task
from train.domains.data.tables import CITIES, PRODUCTS, SIZES, Table, orders
from train.domains.task import Task, TaskDomain


def _aggregate(rng: random.Random, level: int) -> Task:
    """A sum, a sum with a filter, a mean of a group, a share between groups."""
    cities, products = rng.sample(CITIES, 3), rng.sample(PRODUCTS, 3)
    table = orders(rng, SIZES[level], cities, products)
    quantity, price = table.numbers("quantity"), table.numbers("price")
    city, product = rng.choice(table.column("city")), rng.choice(table.column("product"))
    in_city = [place for place, each in enumerate(table.column("city")) if each == city]
    if level == 0:
        column = rng.choice(("quantity", "price"))
        return number_task(f"{table.csv}\nWhat is the sum of {column}?", sum(table.numbers(column)), 0)
    if level == 1:
        total = sum(quantity[place] for place in in_city)
        return number_task(
            f"{table.csv}\nWhat is the sum of quantity over all rows with city {city}?", total, 0
        )
    if level == 2:
        mean = Fraction(sum(price[place] for place in in_city), len(in_city))
        return number_task(f"{table.csv}\nWhat is the mean price of the rows with city {city}?", mean, 2)
    of_product = [place for place in range(len(table.rows)) if table.rows[place][2] == product]
    share = Fraction(
        100 * sum(quantity[place] * price[place] for place in of_product),
        sum(q * p for q, p in zip(quantity, price, strict=True)),
    )
    return number_task(
        f"{table.csv}\nThe revenue of a row is quantity times price. "
        f"What share of the whole revenue, in percent, comes from product {product}?",
        share,
        2,
    )


def _extreme(rng: random.Random, level: int) -> Task:
    """Which group has the largest or smallest sum, mean or revenue: five to eight labels, one of which it is."""
    cities = rng.sample(CITIES, 5 + level)
    while True:
        table = orders(rng, SIZES[level] + 6, cities, PRODUCTS)
        totals: dict[str, list[int]] = defaultdict(list)
        for _, city, _, quantity, price in table.rows:
            assert isinstance(quantity, int)
            assert isinstance(price, int)
            totals[str(city)].append(quantity if level < 2 else quantity * price)
        is_mean, is_largest = level % 2 == 1, rng.random() < 0.5
        values = {city: Fraction(sum(each), len(each) if is_mean else 1) for city, each in totals.items()}
        best = (max if is_largest else min)(values.values())
        if len(values) == len(cities) and list(values.values()).count(best) == 1:
            break
    measure = "quantity" if level < 2 else "revenue (quantity times price)"
    return label_task(
        f"{table.csv}\nWhich city has the {'largest' if is_largest else 'smallest'} "
        f"{'mean' if is_mean else 'total'} {measure} of its rows?",
        next(city for city, value in values.items() if value == best),
        sorted(cities),
    )


def _joined(rng: random.Random, level: int) -> Task:
    """Orders with the prices in a table of their own; a filter, a second key, rows without a match."""
    cities, products = rng.sample(CITIES, 3), rng.sample(PRODUCTS, 4)
    whole = orders(rng, SIZES[level], cities, products)
    table = Table(("order", "city", "product", "quantity"), tuple(row[:4] for row in whole.rows))
    priced = products if level < 3 else products[:3]
    prices = {product: rng.randint(5, 80) for product in priced}
    country = {city: rng.choice("NSEW") for city in cities}
    listed = Table(("product", "price"), tuple(prices.items())).csv
    text, question = (
        f"orders:\n{table.csv}\n\nprices:\n{listed}\n",
        "What is the revenue, the sum of quantity times price",
    )
    keep, where = set(cities), ""
    if level == 1 or level == 3:
        keep = {str(rng.choice(whole.column("city")))}
        where = f" over the orders of city {next(iter(keep))}"
    elif level == 2:
        region = country[str(rng.choice(whole.column("city")))]
        keep = {city for city in cities if country[city] == region}
        text += f"\nregions:\n{Table(('city', 'region'), tuple(country.items())).csv}\n"
        where = f" over the orders of region {region}"
    rest = " Leave out orders of products without a price." if level == 3 else ""
    total = sum(
        quantity * prices.get(str(product), 0)
        for _, city, product, quantity in table.rows
        if city in keep and isinstance(quantity, int)
    )
    return number_task(f"{text}\n{question}{where}?{rest}", total, 0)


_QUESTIONS: Final = {
    "aggregate": ("Filter and aggregate a table; the number to its last decimal.", _aggregate),
    "extreme": ("Find the group with the largest or smallest value; one of five to eight labels.", _extreme),
    "join": ("Join two or three tables and add up; the number exactly.", _joined),
}
DOMAINS: Final = tuple(
    TaskDomain(f"data_{name}", description, draw, judge, Family.DATA_SCIENCE)
    for name, (description, draw) in _QUESTIONS.items()
)
