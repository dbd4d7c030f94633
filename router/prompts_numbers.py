"""Prompts about numbers: sums, differences, products, comparisons, sequences, counting, units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from router.prompts_checks import Check, Number, States

Question = tuple[str, Check, str]

TERSE: Final = ("Answer with the number only.", "Give only the number.", "Just the number, please.")

UNITS: Final = (
    ("minutes", "hours", 60),
    ("hours", "days", 24),
    ("days", "weeks", 7),
    ("months", "years", 12),
    ("centimetres", "metres", 100),
    ("grams", "kilograms", 1000),
    ("seconds", "minutes", 60),
    ("eggs", "dozens", 12),
    ("cents", "dollars", 100),
)
"""Of the smaller unit, this many make one of the larger."""

NAMES: Final = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry")
THINGS: Final = ("apples", "books", "coins", "stamps", "cards", "pencils", "shells", "balloons")


def sums(rng: np.random.Generator, level: int) -> Question:
    """Two numbers of one to three digits."""
    a, b = _between(rng, 10**level, 10 ** (level + 1) - 1, 2)
    return _arithmetic(rng, f"{a} + {b}", a + b)


def differences(rng: np.random.Generator, level: int) -> Question:
    """The smaller of two numbers from the larger."""
    a, b = sorted(_between(rng, 10**level, 10 ** (level + 1) - 1, 2))
    return _arithmetic(rng, f"{b} - {a}", b - a)


def products(rng: np.random.Generator, level: int) -> Question:
    """Within the table, beyond it, two digits by two."""
    a = _between(rng, *((2, 9), (2, 9), (11, 40))[level], 1)[0]
    b = _between(rng, *((2, 9), (11, 99), (11, 40))[level], 1)[0]
    return _arithmetic(rng, f"{a} × {b}", a * b)


def comparisons(rng: np.random.Generator, level: int) -> Question:
    """The largest or smallest of two to four numbers of two to four digits."""
    numbers = _different(rng, 10 ** (level + 1), 2 + level)
    word, right = (("larger", max(numbers)), ("smaller", min(numbers)))[rng.integers(2)]
    word = word if level == 0 else {"larger": "largest", "smaller": "smallest"}[word]
    listed = f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"
    prompt = f"Which number is {word}: {listed}? {_pick(rng, TERSE)}"
    return prompt, States(str(right), tuple(map(str, numbers))), str(right)


def sequences(rng: np.random.Generator, level: int) -> Question:
    """The next of an arithmetic, a falling or a geometric sequence."""
    step, start = int(rng.integers(1 + level, 6 + 3 * level)), int(rng.integers(1, 30))
    if level == 2 and rng.integers(2):
        shown = [start % 5 + 1]
        while len(shown) < 5:
            shown.append(shown[-1] * (2 + step % 2))
    else:
        first = start if level == 0 else start + 5 * step
        shown = [first + (step if level == 0 else -step) * n for n in range(5)]
    prompt = f"What number comes next: {', '.join(map(str, shown[:-1]))}, …? {_pick(rng, TERSE)}"
    return prompt, Number(shown[-1]), str(shown[-1])


def units(rng: np.random.Generator, level: int) -> Question:
    """One larger unit in smaller ones, several, and the other way round."""
    small, large, factor = UNITS[rng.integers(len(UNITS))]
    count = 1 if level == 0 and rng.integers(3) == 0 else int(rng.integers(2, 4 if level == 0 else 13))
    if level < 2:
        thing = large if count > 1 else large.removesuffix("s")
        return _question(rng, f"How many {small} are in {count} {thing}?", count * factor)
    return _question(rng, f"How many {large} are {count * factor} {small}?", count)


def stories(rng: np.random.Generator, level: int) -> Question:
    """Somebody has things, and gets or gives away some: one step to three."""
    name, thing = _pick(rng, NAMES), _pick(rng, THINGS)
    total = int(rng.integers(3, 10 + 20 * level))
    sentences = [f"{name} has {total} {thing}."]
    for _ in range(1 + level):
        change = int(rng.integers(1, 10))
        if change < total and rng.integers(2):
            total -= change
            sentences.append(f"{name} gives {change} away.")
        else:
            total += change
            sentences.append(f"{name} gets {change} more.")
    return _question(rng, f"{' '.join(sentences)} How many {thing} does {name} have now?", total)


def parity(rng: np.random.Generator, level: int) -> Question:
    """Whether a number is even or odd."""
    number = int(rng.integers(10**level, 10 ** (level + 1)))
    right = ("even", "odd")[number % 2]
    return f"Is {number} even or odd? Answer with one word.", States(right, ("even", "odd")), right


DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, int], Question]]] = {
    "sums": sums,
    "differences": differences,
    "products": products,
    "comparisons": comparisons,
    "sequences": sequences,
    "units": units,
    "stories": stories,
    "parity": parity,
}


def _arithmetic(rng: np.random.Generator, task: str, value: int) -> Question:
    asked = _pick(rng, (f"What is {task}?", f"Calculate {task}.", f"{task} = ?"))
    return _question(rng, asked, value)


def _question(rng: np.random.Generator, asked: str, value: int) -> Question:
    return f"{asked} {_pick(rng, TERSE)}", Number(value), str(value)


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[rng.integers(len(options))]


def _between(rng: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    return [int(number) for number in rng.integers(low, high + 1, count)]


def _different(rng: np.random.Generator, below: int, count: int) -> list[int]:
    return [int(number) for number in rng.choice(np.arange(1, below), count, replace=False)]
