"""Word problems: units to be converted and prices to be reckoned, in one to four steps."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Final

from train.domains.mathematics.forms import Form
from train.domains.mathematics.problem import mathematics, problem
from train.domains.task import Task

_UNITS: Final = {
    "length": {"millimetres": "0.001", "centimetres": "0.01", "metres": "1", "kilometres": "1000"},
    "mass": {"milligrams": "0.001", "grams": "1", "kilograms": "1000", "tonnes": "1000000"},
    "volume": {"millilitres": "0.001", "centilitres": "0.01", "litres": "1", "cubic metres": "1000"},
    "time": {"seconds": "1", "minutes": "60", "hours": "3600", "days": "86400"},
}
_NUMBER: Final = "Answer with the number only, as a whole number, a decimal or a fraction."


def _units(rng: random.Random, level: int) -> Task:
    """One conversion, a sum in mixed units, a rate times a time, a speed in other units."""
    known = [(name, Fraction(size)) for name, size in _UNITS[rng.choice(sorted(_UNITS))].items()]
    if level == 0:
        (one, size), (other, target) = rng.sample(known, 2)
        amount = rng.randint(2, 99) * (1 if size >= target else int(target / size))
        return _asked(f"How many {other} are {amount} {one}?", amount * size / target)
    if level == 1:
        units = rng.sample(known, 3)
        amounts = [rng.randint(1, 40) for _ in range(2)]
        total = sum(amount * size for amount, (_, size) in zip(amounts, units, strict=False))
        least, size = min(units, key=lambda unit: unit[1])
        return _asked(
            f"Add {amounts[0]} {units[0][0]} and {amounts[1]} {units[1][0]}. How many {least} is that?",
            total / size,
        )
    if level == 2:
        rate, hours, minutes = rng.randint(2, 60), rng.randint(2, 9), rng.choice((12, 15, 24, 30, 45, 48))
        return _asked(
            f"A tap gives {rate} centilitres a minute. "
            f"How many litres does it give in {hours} hours and {minutes} minutes?",
            Fraction(rate * (60 * hours + minutes), 100),
        )
    speed, minutes, seconds = 18 * rng.randint(2, 10), rng.randint(2, 6), rng.randint(5, 59)
    extra = rng.randint(100, 900)
    return _asked(
        f"A train goes at {speed} kilometres per hour for {minutes} minutes and {seconds} seconds, "
        f"then {extra} metres more. How many metres has it gone?",
        Fraction(speed * 1000, 3600) * (60 * minutes + seconds) + extra,
    )


def _asked(text: str, value: Fraction) -> Task:
    return problem(f"{text}\n{_NUMBER}", str(value), Form.NUMBER)


def _prices(rng: random.Random, level: int) -> Task:
    """A part of a price, then changes one after another, then the price before them."""
    price = 20 * rng.randint(2, 99)
    changes = [rng.choice((5, 10, 20, 25, 30, 40, 50)) for _ in range(max(1, level))]
    signs = [rng.choice((-1, 1)) for _ in changes]
    if level == 0:
        return _asked(f"What is {changes[0]} percent of {price}?", Fraction(price * changes[0], 100))
    factor = Fraction(1)
    for change, sign in zip(changes, signs, strict=True):
        factor *= 1 + Fraction(sign * change, 100)
    steps = ", then ".join(
        f"{'rises' if sign > 0 else 'falls'} by {change} percent"
        for change, sign in zip(changes, signs, strict=True)
    )
    if level < 3:
        return _asked(f"A price of {price} euros {steps}. What is it in the end, in euros?", price * factor)
    return _asked(
        f"A price {steps}, and is {_decimal(price * factor)} euros in the end. What was it at first, in euros?",
        Fraction(price),
    )


def _decimal(value: Fraction) -> str:
    """Exactly; the denominators here are products of two and five."""
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    return f"{float(value):.{digits}f}"


DOMAINS: Final = (
    mathematics("math_units", "Convert units in a word problem; the number exactly.", _units),
    mathematics("math_prices", "Reckon with percentages of prices; the number exactly.", _prices),
)
