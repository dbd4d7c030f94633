"""Statistics of a column or two, of outliers and of a series; quantiles are those of linear interpolation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from statistics import correlation, linear_regression, median, pstdev, stdev
from typing import Final

from train.domains.base import Family
from train.domains.data.asking import judge, labels_task, number_task
from train.domains.data.tables import SIZES, Table
from train.domains.task import Task, TaskDomain

_LINEAR: Final = "(with linear interpolation between the sorted values)"


def quantile(values: Sequence[int], share: Fraction) -> Fraction:
    """At place share · (n − 1) of the sorted values, counted from 0: the default of numpy and pandas."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _statistic(rng: random.Random, level: int) -> Task:
    """Mean and median, spread and percentiles, a line of regression, a correlation."""
    size = SIZES[level]
    x = rng.sample(range(1, 60), size)
    y = [2 * each + rng.randint(-40, 40) + 50 for each in x]
    if level < 2:
        text = Table(("y",), tuple((each,) for each in y)).csv
        share = rng.choice((10, 25, 75, 90))
        name, value = rng.choice(
            (("mean", Fraction(sum(y), size)), ("median", Fraction(median(y))))
            if level == 0
            else (
                ("sample standard deviation", stdev(y)),
                (f"{share}th percentile {_LINEAR}", quantile(y, Fraction(share, 100))),
            )
        )
        return number_task(f"{text}\nWhat is the {name} of y?", value, 2)
    text = Table(("x", "y"), tuple(zip(x, y, strict=True))).csv
    line = linear_regression(x, y)
    name, value = rng.choice(
        (("slope", line.slope), ("intercept", line.intercept))
        if level == 2
        else (("Pearson correlation of x and y", correlation(x, y)), ("R squared", correlation(x, y) ** 2))
    )
    if level == 2 or name == "R squared":
        name += " of the least-squares line of y on x"
    return number_task(f"{text}\nWhat is the {name}?", value, 3)


def _outliers(rng: random.Random, level: int) -> Task:
    """By distance, by deviations, by quartiles, by deviations within groups."""
    while True:
        values = [rng.randint(40, 60) for _ in range(SIZES[level] + 4)]
        for place in rng.sample(range(len(values)), rng.randint(1, 2 + level // 2)):
            values[place] += rng.choice((-1, 1)) * rng.randint(12, 40)
        rule, found = _found(rng, level, values)
        if 1 <= len(found) <= 5:
            break
    labels = rng.sample([f"{letter}{digit}" for letter in "abcdefgh" for digit in range(1, 9)], len(values))
    text = Table(("id", "value"), tuple(zip(labels, values, strict=True))).csv
    return labels_task(f"{text}\nWhich ids have a value {rule}?", [labels[place] for place in found])


def _found(rng: random.Random, level: int, values: Sequence[int]) -> tuple[str, list[int]]:
    """The rule in words, and the places that it finds."""
    if level == 0:
        bound = rng.randint(11, 16)
        return f"more than {bound} away from 50", [i for i, v in enumerate(values) if abs(v - 50) > bound]
    if level == 1:
        middle, bound = Fraction(median(values)), rng.randint(11, 16)
        return f"more than {bound} away from the median", [
            i for i, v in enumerate(values) if abs(v - middle) > bound
        ]
    if level == 2:
        first, third = quantile(values, Fraction(1, 4)), quantile(values, Fraction(3, 4))
        reach = Fraction(3, 2) * (third - first)
        rule = f"below Q1 - 1.5 IQR or above Q3 + 1.5 IQR, with the quartiles of all values {_LINEAR}"
        return rule, [i for i, v in enumerate(values) if not first - reach <= v <= third + reach]
    mean, spread = Fraction(sum(values), len(values)), pstdev(values)
    rule = "more than 1.5 population standard deviations away from the mean of all values"
    return rule, [i for i, v in enumerate(values) if abs(float(v - mean)) > 1.5 * spread]


def _series(rng: random.Random, level: int) -> Task:
    """A change in percent, a moving average, the deepest fall from a peak, a spread of daily changes."""
    values = [rng.randint(50, 99)]
    while len(values) < SIZES[level]:
        values.append(max(10, values[-1] + rng.randint(-15, 17)))
    text = Table(("day", "value"), tuple(enumerate(values, 1))).csv
    if level == 0:
        one, other = sorted(rng.sample(range(1, len(values) + 1), 2))
        change = Fraction(100 * (values[other - 1] - values[one - 1]), values[one - 1])
        return number_task(
            f"{text}\nBy how many percent does value change from day {one} to day {other}?", change, 2
        )
    if level == 1:
        width, day = rng.randint(3, 4), rng.randint(4, len(values))
        mean = Fraction(sum(values[day - width : day]), width)
        return number_task(
            f"{text}\nWhat is the moving average at day {day} over {width} days, "
            f"that is this day and the {width - 1} before it?",
            mean,
            2,
        )
    if level == 2:
        falls = [
            Fraction(100 * (max(values[: i + 1]) - v), max(values[: i + 1])) for i, v in enumerate(values)
        ]
        return number_task(
            f"{text}\nWhat is the largest fall from the highest value so far, in percent of that value?",
            max(falls),
            2,
        )
    changes = [b - a for a, b in pairwise(values)]
    return number_task(
        f"{text}\nWhat is the sample standard deviation of the changes from day to day?", stdev(changes), 2
    )


_DESCRIPTIONS: Final = {
    "statistics": ("Compute a statistic of one or two columns; the number to its last decimal.", _statistic),
    "outliers": ("Find outliers by a given rule; their ids, exactly, in any order.", _outliers),
    "series": (
        "Compute a change, an average or a fall of a series; the number to its last decimal.",
        _series,
    ),
}
DOMAINS: Final = tuple(
    TaskDomain(f"data_{name}", description, draw, judge, Family.DATA_SCIENCE)
    for name, (description, draw) in _DESCRIPTIONS.items()
)
