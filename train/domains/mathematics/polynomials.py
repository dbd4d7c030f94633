"""Polynomials in one variable as lists of whole coefficients, the constant first, and as text."""

from __future__ import annotations

import random
from collections.abc import Sequence


def as_text(coefficients: Sequence[int], variable: str = "x") -> str:
    """`3x^2 - x + 4`; `0` for nothing."""
    terms = [
        (coefficient, _term(abs(coefficient), power, variable))
        for power, coefficient in reversed(list(enumerate(coefficients)))
        if coefficient
    ]
    if not terms:
        return "0"
    first = ("-" if terms[0][0] < 0 else "") + terms[0][1]
    return first + "".join(f" {'-' if sign < 0 else '+'} {term}" for sign, term in terms[1:])


def _term(size: int, power: int, variable: str) -> str:
    name = "" if power == 0 else variable if power == 1 else f"{variable}^{power}"
    return f"{size}{name}" if size != 1 or not name else name


def product(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Their product."""
    result = [0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            result[i + j] += a * b
    return result


def value(coefficients: Sequence[int], at: int) -> int:
    """Its value."""
    return sum(coefficient * at**power for power, coefficient in enumerate(coefficients))


def nonzero(rng: random.Random, bound: int) -> int:
    """A whole number in [−bound, bound] that is not 0."""
    return rng.choice((-1, 1)) * rng.randint(1, bound)


def random_polynomial(rng: random.Random, degree: int, bound: int) -> list[int]:
    """Of exactly that degree, coefficients in [−bound, bound]."""
    return [*(rng.randint(-bound, bound) for _ in range(degree)), nonzero(rng, bound)]
