"""Calculus: derivatives, definite integrals, limits and coefficients of series; references by sympy or by formula."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb, factorial
from typing import Any, Final

from train.domains.mathematics.forms import Form
from train.domains.mathematics.polynomials import as_text, nonzero, product, random_polynomial
from train.domains.mathematics.problem import mathematics, problem
from train.domains.task import Task
from train.verifiers.expressions import expression

_ONLY: Final = "Answer with the expression only."
_NUMBER: Final = "Answer with a whole number or a fraction in lowest terms."
_FUNCTIONS: Final = ("sin", "cos", "exp", "ln")


def _derivative(rng: random.Random, level: int) -> Task:
    """A monomial, a polynomial, a product with a function, a function of a function."""
    if level == 0:
        text = as_text([*[0] * rng.randint(2, 12), nonzero(rng, 40)])
    elif level == 1:
        text = as_text(random_polynomial(rng, rng.randint(3, 5), 9))
    elif level == 2:
        text = f"{as_text([*[0] * rng.randint(2, 5), nonzero(rng, 20)])}*{rng.choice(_FUNCTIONS)}(x)"
    else:
        inner = as_text([nonzero(rng, 5), 0, rng.randint(2, 5)])
        text = (
            f"{rng.randint(2, 9)}*{rng.choice(_FUNCTIONS)}({inner}) + {as_text([0, 0, 0, rng.randint(2, 9)])}"
        )
    return problem(
        f"Find the derivative of {text} with respect to x.\n{_ONLY}", _differentiated(text), Form.EXPRESSION
    )


def _differentiated(text: str) -> str:
    import sympy

    return _as_text(sympy.diff(expression(text), sympy.Symbol("x")))


def _as_text(value: Any) -> str:
    return str(value).replace("**", "^").replace("log(", "ln(")


def _integral(rng: random.Random, level: int) -> Task:
    """Of polynomials, then of a sine, an exponential, or a logarithm's derivative over a fitting interval."""
    if level < 3:
        below = rng.randint(-2, 2) if level else 0
        above = below + rng.randint(1, 3)
        coefficients = random_polynomial(rng, level + 1, 6)
        total = sum(
            (Fraction(c * (above ** (n + 1) - below ** (n + 1)), n + 1) for n, c in enumerate(coefficients)),
            Fraction(0),
        )
        return problem(
            _integral_of(as_text(coefficients), str(below), str(above), _NUMBER), str(total), Form.LOWEST
        )
    size, rate = rng.randint(2, 9), rng.randint(2, 6)
    added = rng.randint(1, 9)
    text, end, answer = rng.choice((
        (f"{size}*sin({rate}x) + {added}", "pi", f"{size * (1 - (-1) ** rate)}/{rate} + {added}*pi"),
        (f"{size}*exp({rate}x) + {added}", "1", f"{size}/{rate}*(exp({rate}) - 1) + {added}"),
        (f"{size}/(x + {rate}) + {added}", "1", f"{size}*ln({rate + 1}) - {size}*ln({rate}) + {added}"),
    ))  # fmt: skip
    return problem(
        _integral_of(text, "0", end, "Answer with the exact value."),
        _as_text(expression(answer)),
        Form.EXPRESSION,
    )


def _integral_of(text: str, below: str, above: str, how: str) -> str:
    return f"Integrate {text} with respect to x from {below} to {above}.\n{how}"


def _limit(rng: random.Random, level: int) -> Task:
    """At infinity, at a removable gap, of a standard quotient, of a difference of roots."""
    if level == 0:
        above, below = (random_polynomial(rng, 2, 9) for _ in range(2))
        text, to = f"({as_text(above)}) / ({as_text(below)})", "infinity"
        value = Fraction(above[-1], below[-1])
    elif level == 1:
        gap, other = nonzero(rng, 12), nonzero(rng, 12)
        scale = rng.randint(1, 4)
        numerator = [scale * part for part in product([-gap, 1], [other, 1])]
        text, to = f"({as_text(numerator)}) / ({as_text([-gap, 1])})", str(gap)
        value = Fraction(scale * (gap + other))
    elif level == 2:
        one, other = rng.sample(range(2, 30), 2)
        text, value = rng.choice((
            (f"sin({one}x) / ({other}x)", Fraction(one, other)),
            (f"(exp({one}x) - 1) / ({other}x)", Fraction(one, other)),
            (f"(1 - cos({one}x)) / ({other}x^2)", Fraction(one * one, 2 * other)),
            (f"ln(1 + {one}x) / ({other}x)", Fraction(one, other)),
        ))  # fmt: skip
        to = "0"
    else:
        root, rate, divisor = rng.randint(2, 9), nonzero(rng, 9), rng.randint(2, 9)
        text, to = f"(sqrt({as_text([root * root, rate])}) - {root}) / ({divisor}x)", "0"
        value = Fraction(rate, 2 * root * divisor)
    return problem(f"Find the limit of {text} as x goes to {to}.\n{_NUMBER}", str(value), Form.LOWEST)


def _series(rng: random.Random, level: int) -> Task:
    """Coefficients of a power, of a geometric series, of an exponential, of a product of two."""
    rate, power = nonzero(rng, 12), rng.randint(2, 5 + level)
    if level == 0:
        above = rng.randint(power, power + 4)
        text, value = f"({as_text([1, rate])})^{above}", Fraction(comb(above, power) * rate**power)
    elif level == 1:
        size = nonzero(rng, 9)
        text, value = f"{size}/({as_text([1, -rate])})", Fraction(size * rate**power)
    elif level == 2:
        size = rng.randint(1, 9)
        text = f"{size}*exp({as_text([0, rate])})"
        value = size * Fraction(rate**power, factorial(power))
    else:
        linear = [nonzero(rng, 6), nonzero(rng, 6)]
        text = f"({as_text(linear)})*exp({as_text([0, rate])})"
        value = linear[0] * Fraction(rate**power, factorial(power)) + linear[1] * Fraction(
            rate ** (power - 1), factorial(power - 1)
        )
    return problem(
        f"Find the coefficient of x^{power} in the power series of {text} around 0.\n{_NUMBER}",
        str(value),
        Form.LOWEST,
    )


DOMAINS: Final = (
    mathematics("math_derivative", "Differentiate; compared symbolically.", _derivative),
    mathematics(
        "math_integral", "Integrate between bounds; the exact value, compared symbolically.", _integral
    ),
    mathematics("math_limit", "Find a limit; the exact fraction.", _limit),
    mathematics("math_series", "Find a coefficient of a power series; the exact fraction.", _series),
)
