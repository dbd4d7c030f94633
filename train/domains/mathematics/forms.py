"""What an answer must be beside equal: an echo of the task is equal to its answer and deserves nothing.

A form is checked on the text, for sympy collects and cancels while it reads: `x + x` is `2*x` before anyone looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from math import gcd
from typing import Final

from train.verifiers.answers import is_number, numbers
from train.verifiers.symbolic import is_equal, read

VARIABLE: Final = "x"
MAX_ROOTS: Final = 4
_NAMED: Final = re.compile(r"\b[a-z]\s*=\s*")
_SIZES: Final = tuple(map(re.compile, (VARIABLE, r"(?<=\S)\s*[-+−]", r"\(", r"\^|\*\*")))
_RATIO: Final = re.compile(r"(-?\d+)(?: ?/ ?(\d+))?")


class Form(StrEnum):
    """What was asked for."""

    NUMBER = "number"
    LOWEST = "lowest"
    NUMBERS = "numbers"
    ROOTS = "roots"
    EXPRESSION = "expression"
    SHORT = "short"
    EXPANDED = "expanded"
    FACTORED = "factored"

    @property
    def wanted(self) -> str:
        """In words, for the evidence."""
        return _WANTED[self]


_WANTED: Final = {
    Form.NUMBER: "one number",
    Form.LOWEST: "a whole number or a fraction in lowest terms",
    Form.NUMBERS: "numbers with commas between them",
    Form.ROOTS: "all roots with commas between them",
    Form.EXPRESSION: "one expression",
    Form.SHORT: "an expression that cannot be shortened",
    Form.EXPANDED: "a sum of powers, without brackets",
    Form.FACTORED: "a product of linear factors",
}


def _is_lowest(text: str, reference: str) -> bool:
    found = _RATIO.fullmatch(text.replace("−", "-"))
    if not found or len(text) > 60:
        return False
    above, below = int(found[1]), int(found[2] or 1)
    return below > 0 and gcd(above, below) == 1 and Fraction(above, below) == Fraction(reference)


def _are_numbers(text: str, reference: str) -> bool:
    return numbers(_NAMED.sub("", text)) == numbers(reference)


def _are_roots(text: str, reference: str) -> bool:
    given = [part.strip() for part in _NAMED.sub("", text).split(",")]
    wanted = [part.strip() for part in reference.split(",")]
    if not len(given) == len(wanted) <= MAX_ROOTS:
        return False
    for part in given:
        match = next((root for root in wanted if is_equal(part, root)), None)
        if match is None:
            return False
        wanted.remove(match)
    return True


def _is_short(text: str, reference: str) -> bool:
    """Equal, with no more terms, brackets and powers than the reference has, and the variable no more often."""
    return all(len(found.findall(text)) <= len(found.findall(reference)) for found in _SIZES) and is_equal(
        text, reference
    )


def _is_expanded(text: str, reference: str) -> bool:
    return "(" not in text and _is_short(text, reference)


def _is_factored(text: str, reference: str) -> bool:
    if not is_equal(text, reference):
        return False
    import sympy

    product = read(text)
    x = sympy.Symbol(VARIABLE)
    factors = [factor.as_base_exp()[0] for factor in sympy.Mul.make_args(product)]
    return all(factor.is_polynomial(x) and sympy.Poly(factor, x).degree() <= 1 for factor in factors)


def _is_value(text: str, reference: str) -> bool:
    return is_number(text, Fraction(reference))


FORMS: Final[Mapping[Form, Callable[[str, str], bool]]] = {
    Form.NUMBER: _is_value,
    Form.LOWEST: _is_lowest,
    Form.NUMBERS: _are_numbers,
    Form.ROOTS: _are_roots,
    Form.EXPRESSION: is_equal,
    Form.SHORT: _is_short,
    Form.EXPANDED: _is_expanded,
    Form.FACTORED: _is_factored,
}
"""By form: whether a text has it and is equal to a reference."""
