"""Whether two mathematical answers are equal: x²+2x+1 is (x+1)², and 1/√2 is √2/2.

Plain expressions are read by `train.verifiers.expressions`, LaTeX by math-verify. Both are compared exactly. What could
take for ever is refused before, as far as that can be seen; what cannot be seen is the pool's, so **call this only
inside a verifier's worker**. math-verify's own time limit is an alarm signal, which threads do not have and which a
long multiplication ignores; it is switched off.
"""

from __future__ import annotations

import re
from typing import Any, Final

from train.verifiers.expressions import UnreadableError, expression

MAX_LATEX_CHARS: Final = 400
MAX_LATEX_EXPONENT: Final = 400

_COMMANDS: Final = frozenset({
    "frac", "dfrac", "tfrac", "sqrt", "binom", "cdot", "times", "pm", "left", "right", "circ", "quad",
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "ln", "log", "exp",
    "cup", "cap", "emptyset", "in", "le", "ge", "leq", "geq", "lt", "gt",
    "pi", "infty", "alpha", "beta", "gamma", "theta", "lambda", "mu", "sigma", "phi", "omega",
})  # fmt: skip
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)")
_POWER: Final = re.compile(r"\^\s*(?:\{([^{}]*)\}|(\\[A-Za-z]+|[^{\s]))")


def is_equal(text: str, reference: str) -> bool:
    """Whether `text` is, as a whole, an expression equal to `reference`.

    False for what cannot be read or is too large. No answer is found inside a sentence; an equation equals no value.

    Raises:
        UnreadableError: the reference cannot be read; an error of the domain.
    """
    wanted = read(reference)
    try:
        given = read(text)
    except UnreadableError:
        return False
    return are_equal(given, wanted)


def read(text: str) -> Any:
    """The sympy object that a whole text is.

    Raises:
        UnreadableError: it is none, or would be too large.
    """
    if "\\" not in text:
        return expression(text)
    check_latex(text)
    return parse_latex(text)


def check_latex(text: str) -> None:
    """Refuse what is no single formula, and powers that would grow out of hand.

    Raises:
        UnreadableError: says which.
    """
    if len(text) > MAX_LATEX_CHARS:
        raise UnreadableError("too long")
    if set(_COMMAND.findall(text)) - _COMMANDS or re.search(r"[A-Za-z]{2}|[$=;]", _COMMAND.sub(" ", text)):
        raise UnreadableError("words are no formula")
    if "!" in text or re.search(r"\d{60}", text):
        raise UnreadableError("too large")
    exponents = [braced or single for braced, single in _POWER.findall(text)]
    # An exponent in braces that holds braces is not matched: it could hide a tower.
    if len(exponents) != text.count("^") or any("^" in exponent for exponent in exponents):
        raise UnreadableError("a tower of powers")
    if any(
        int(digits) > MAX_LATEX_EXPONENT for exponent in exponents for digits in re.findall(r"\d+", exponent)
    ):
        raise UnreadableError("too large a power")


def parse_latex(text: str) -> Any:
    """What math-verify reads in a formula, unchecked.

    Raises:
        UnreadableError: nothing, or more than one thing.
    """
    import sympy
    from math_verify import LatexExtractionConfig, parse

    found = parse(f"${text}$", [LatexExtractionConfig()], parsing_timeout=None)
    read = [value for value in found if not isinstance(value, str)]
    if len(read) != 1:
        raise UnreadableError("not a formula")
    # Its symbols are real numbers to sympy, ours are just symbols, and the two never cancel.
    return read[0].xreplace({symbol: sympy.Symbol(symbol.name) for symbol in read[0].free_symbols})


def are_equal(given: Any, wanted: Any) -> bool:
    """Whether two sympy objects are equal: expressions exactly, sets and intervals by math-verify."""
    import sympy
    from math_verify import verify

    if isinstance(given, sympy.Expr) and isinstance(wanted, sympy.Expr):
        return bool(given == wanted or sympy.simplify(given - wanted) == 0)
    if isinstance(given, sympy.Expr) or isinstance(wanted, sympy.Expr):
        return False
    return bool(verify([wanted], [given], timeout_seconds=None))
