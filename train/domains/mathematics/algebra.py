"""Algebra: expressions to be brought into a form, and equations to be solved."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import reduce
from math import gcd, isqrt
from typing import Final

from train.domains.mathematics.forms import Form
from train.domains.mathematics.polynomials import as_text, nonzero, product, random_polynomial
from train.domains.mathematics.problem import mathematics, problem
from train.domains.task import Task

_ONLY: Final = "Answer with the expression only."


def _collect(rng: random.Random, level: int) -> Task:
    """Level by level more terms, and brackets from the second on."""
    terms: list[list[int]] = []
    while not any(total := [sum(column) for column in zip(*terms, strict=True)] if terms else [0]):
        terms = [
            [nonzero(rng, 9 * (level + 1)), 0] if place % 2 else [0, nonzero(rng, 9 * (level + 1))]
            for place in range(4 + level)
        ]
        factors = [nonzero(rng, 5) for _ in range(level)]
        inner = [random_polynomial(rng, 1, 9) for _ in factors]
        terms += [[factor * part for part in each] for factor, each in zip(factors, inner, strict=True)]
    text = as_text(terms[0])
    for term in terms[1 : 4 + level]:
        text += f" + {as_text(term)}" if max(term) > 0 else f" - {as_text([-part for part in term])}"
    for factor, each in zip(factors, inner, strict=True):
        text += f" {'+' if factor > 0 else '-'} {abs(factor)}({as_text(each)})"
    return problem(f"Collect like terms: {text}\n{_ONLY}", as_text(total), Form.EXPANDED)


def _simplify(rng: random.Random, level: int) -> Task:
    """A quotient of products with a common factor, multiplied out."""
    bound = 9 + 3 * level
    shared, above, below = ([nonzero(rng, bound), 1] for _ in range(3))
    if level < 2:
        above = [above[0], 1 if level == 0 else rng.randint(2, 4)]
        common = gcd(*above)
        above = [part // common for part in above]
        return problem(
            f"Simplify ({as_text(product(shared, above))}) / ({as_text(shared)})\n{_ONLY}",
            as_text(above),
            Form.SHORT,
        )
    while above == below or below == shared:
        below = [nonzero(rng, bound), 1]
    if level == 3:
        shared = product(shared, [nonzero(rng, 3), 1])
    return problem(
        f"Simplify ({as_text(product(shared, above))}) / ({as_text(product(shared, below))})\n{_ONLY}",
        f"({as_text(above)})/({as_text(below)})",
        Form.SHORT,
    )


def _expand(rng: random.Random, level: int) -> Task:
    factors = [
        random_polynomial(rng, 1 + (level == 2 and place == 1), 9 + level)
        for place in range(2 if level < 3 else 3)
    ]
    for factor in factors:
        factor[0] = factor[0] or 1
        if level == 0:
            factor[-1] = 1
    text = "".join(f"({as_text(factor)})" for factor in factors)
    return problem(f"Expand {text}\n{_ONLY}", as_text(reduce(product, factors)), Form.EXPANDED)


def _factor(rng: random.Random, level: int) -> Task:
    factors = [[nonzero(rng, 11 + 6 * level), 1] for _ in range(2 if level < 3 else 3)]
    if level >= 2:
        factors[0][1] = rng.randint(2, 4)
        common = gcd(*factors[0])
        factors[0] = [part // common for part in factors[0]]
    text = "*".join(f"({as_text(factor)})" for factor in factors)
    return problem(
        f"Factor {as_text(reduce(product, factors))} into linear factors.\n{_ONLY}", text, Form.FACTORED
    )


def _linear_system(rng: random.Random, level: int) -> Task:
    """One to three unknowns; the last level has larger numbers."""
    names = "xyz"[: min(level + 1, 3)]
    bound = 9 if level < 3 else 20
    solution = [rng.randint(-bound, bound) for _ in names]
    if level == 0:
        factor, added = rng.randint(2, 9), nonzero(rng, 9)
        right = factor * solution[0] + added
        return problem(
            f"Solve {as_text([added, factor])} = {right}\nAnswer with the value of x.",
            str(solution[0]),
            Form.NUMBERS,
        )
    rows: list[list[int]] = [[0] * len(names)]
    while determinant(rows) == 0:
        rows = [[nonzero(rng, 6) for _ in names] for _ in names]
    lines = [
        f"{_linear_text(row, names)} = {sum(a * b for a, b in zip(row, solution, strict=True))}"
        for row in rows
    ]
    asked = f"Answer with the values of {', '.join(names)}, in this order, with commas between them."
    return problem("\n".join(("Solve", *lines, asked)), ", ".join(map(str, solution)), Form.NUMBERS)


def _linear_text(row: list[int], names: str) -> str:
    text = as_text([0, row[0]], names[0])
    for coefficient, name in zip(row[1:], names[1:], strict=True):
        text += f" {'-' if coefficient < 0 else '+'} {as_text([0, abs(coefficient)], name)}"
    return text


def determinant(rows: list[list[int]]) -> int:
    """By cofactors; the matrices are small."""
    if len(rows) == 1:
        return rows[0][0]
    return sum(
        (-1) ** place * head * determinant([row[:place] + row[place + 1 :] for row in rows[1:]])
        for place, head in enumerate(rows[0])
    )


def _determinant(rng: random.Random, level: int) -> Task:
    size = 2 if level < 2 else 3
    rows = [
        [rng.randint(-9, 9) if level % 2 else rng.randint(0, 6) for _ in range(size)] for _ in range(size)
    ]
    return problem(
        "Find the determinant of the matrix with these rows:\n"
        + "\n".join(" ".join(map(str, row)) for row in rows)
        + "\nAnswer with the number.",
        str(determinant(rows)),
        Form.NUMBER,
    )


def _quadratic(rng: random.Random, level: int) -> Task:
    """Whole roots, rational ones, then irrational ones."""
    if level < 2:
        factors = [[nonzero(rng, 15), 1], [nonzero(rng, 15), 1 if level == 0 else rng.randint(2, 5)]]
        roots = {Fraction(-constant, leading) for constant, leading in factors}
        equation, answer = product(*factors), ", ".join(map(str, sorted(roots)))
    else:
        leading = 1 if level == 2 else rng.randint(2, 4)
        half, under = rng.randint(-9, 9), rng.choice([n for n in range(2, 60) if isqrt(n) ** 2 != n])
        # leading·x² − 2·half·x + (half² − under)/leading has the roots (half ± √under)/leading; multiplied by leading.
        equation = [half * half - under, -2 * half * leading, leading * leading]
        common = gcd(*equation)
        equation = [part // common for part in equation]
        below = "" if leading == 1 else f"/{leading}"
        answer = ", ".join(f"({half} {sign} sqrt({under})){below}" for sign in "+-")
    return problem(
        f"Solve {as_text(equation)} = 0\nAnswer with all distinct real roots, exact, with commas between them.",
        answer,
        Form.ROOTS,
    )


DOMAINS: Final = (
    mathematics("math_collect", "Collect like terms; compared symbolically, and in form.", _collect),
    mathematics(
        "math_simplify", "Cancel a quotient of polynomials; compared symbolically, and in size.", _simplify
    ),
    mathematics("math_expand", "Multiply a product out; compared symbolically, no brackets left.", _expand),
    mathematics("math_factor", "Factor a polynomial; compared symbolically, every factor linear.", _factor),
    mathematics(
        "math_linear_system", "Solve linear equations; all values exactly, in order.", _linear_system
    ),
    mathematics("math_determinant", "Compute a determinant; the number exactly.", _determinant),
    mathematics(
        "math_quadratic", "Solve a quadratic equation; all roots symbolically, in any order.", _quadratic
    ),
)
