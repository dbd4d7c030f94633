"""Reads a plain algebraic expression into sympy, without ever evaluating text and without ever building what is huge.

Plain means as in a program or on paper: `2*x^2 + 3x - 1/2`, `sqrt(2)/2`, `sin(x)**2`. Names are single letters, `pi`,
and `e` for Euler's number; a number before a name or a bracket multiplies. Sizes are checked before sympy sees an
operation, for it evaluates at once: 9^9^9 has 370 million digits (Math-Verify#65).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

MAX_CHARS: Final = 300
MAX_BITS: Final = 20_000
"""Of any number on the way, about six thousand digits."""
MAX_SYMBOLIC_EXPONENT: Final = 40
"""Of a power whose base is no number: to compare means to expand."""
MAX_NODES: Final = 200

_JUXTAPOSED: Final = re.compile(
    r"(?<![A-Za-z_\d.])(\d+(?:\.\d+)?|\.\d+)\s*(?=[A-Za-z(])|(\))\s*(?=[A-Za-z\d(])"
)
_FUNCTIONS: Final = {
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "ln": "log", "log": "log", "exp": "exp", "abs": "Abs",
    "asin": "asin", "acos": "acos", "atan": "atan",
}  # fmt: skip
_SIMPLE: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


class UnreadableError(ValueError):
    """It is no expression, or one that would be too large to compute with."""


def expression(text: str) -> Any:
    """The sympy expression that `text` is, exactly: decimals are ratios.

    Raises:
        UnreadableError: says why.
    """
    text = text.strip().replace("−", "-").replace("·", "*").replace("×", "*").replace("^", "**")
    if not 0 < len(text) <= MAX_CHARS or not text.isascii():
        raise UnreadableError("empty, too long, or not plain")
    spelled = _JUXTAPOSED.sub(lambda found: f"{found[1] or found[2]}*", text)
    try:
        body = ast.parse(spelled, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise UnreadableError("not an expression") from error
    if sum(1 for _ in ast.walk(body)) > MAX_NODES:
        raise UnreadableError("too many parts")
    return _built(body, spelled)


def _built(node: ast.expr, source: str) -> Any:
    match node:
        case ast.Constant():
            return _number(ast.get_source_segment(source, node) or "")
        case ast.Name(id=name):
            return _named(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_built(operand, source)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _built(operand, source)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _applied(_FUNCTIONS[name], _built(argument, source))
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(op, _built(left, source), _built(right, source))
    raise UnreadableError(f"{type(node).__name__} is not algebra")


def _number(text: str) -> Any:
    import sympy

    if not re.fullmatch(r"\d+(?:\.\d*)?|\.\d+", text):
        raise UnreadableError("not a plain number")
    value = Fraction(text)
    return sympy.Rational(value.numerator, value.denominator)


def _named(name: str) -> Any:
    import sympy

    constants = {"pi": sympy.pi, "e": sympy.E}
    if name in constants:
        return constants[name]
    if len(name) != 1:
        raise UnreadableError(f"{name!r} is no name")
    return sympy.Symbol(name)


def _applied(function: str, argument: Any) -> Any:
    import sympy

    if function == "exp" and abs(argument).is_number and abs(argument) > MAX_BITS:
        raise UnreadableError("too large")
    return vars(sympy)[function](argument)


def _combined(op: ast.operator, left: Any, right: Any) -> Any:
    if type(op) in _SIMPLE:
        return _SIMPLE[type(op)](left, right)
    if isinstance(op, ast.Div):
        if right.is_zero is not False and right.is_number:
            raise UnreadableError("division by zero")
        return left / right
    if isinstance(op, ast.Pow):
        return _power(left, right)
    raise UnreadableError(f"{type(op).__name__} is not algebra")


def _power(base: Any, exponent: Any) -> Any:
    if base.is_zero and not exponent.is_positive:
        raise UnreadableError("a power of zero")
    if exponent.is_Rational:
        size = max(abs(exponent.p), exponent.q)
        bits = max(abs(base.p).bit_length(), base.q.bit_length()) if base.is_Rational else 0
        if bits * size > MAX_BITS or (bits == 0 and size > MAX_SYMBOLIC_EXPONENT):
            raise UnreadableError("too large a power")
    elif any(part.is_Pow for part in exponent.atoms() | {exponent}) or exponent.has(type(base**2)):
        raise UnreadableError("a tower of powers")
    return base**exponent
