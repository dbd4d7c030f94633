"""Exact arithmetic on rational numbers. It has no state."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

from train.tools.base import Operation, ToolError, ToolResult
from train.tools.wire import record, told
from train.transcript import JsonValue

MAX_EXPRESSION_CHARS: Final = 500
MAX_BITS: Final = 1_000
"""Of numerator and denominator, of every value on the way."""
MAX_EXPONENT: Final = 200
MAX_DEPTH: Final = 60
MAX_DECIMALS: Final = 10

_BINARY: Final[Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True)
class Calculator:
    """Evaluates expressions."""

    name: ClassVar[str] = "calculator"
    operations: ClassVar[tuple[Operation, ...]] = (
        Operation(
            "evaluate",
            "Evaluate an expression of numbers, + - * / // % ** and brackets, exactly.",
            record({"expression": {"type": "string", "minLength": 1, "maxLength": MAX_EXPRESSION_CHARS}}),
            is_reading=True,
        ),
    )

    @classmethod
    def from_state(cls, state: Mapping[str, JsonValue]) -> Self:
        """As `Tool.from_state`."""
        return cls()

    def apply(self, operation: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `Tool.apply`."""
        return told(decimal(evaluate(arguments["expression"])))

    def state(self) -> dict[str, JsonValue]:
        """Empty."""
        return {}


def evaluate(expression: str) -> Fraction:
    """The value of an expression.

    Raises:
        ToolError: it is none, divides by zero, or gets too large.
    """
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolError("this is no expression of numbers, + - * / // % ** and brackets") from None
    return _value(tree.body, 0)


def decimal(value: Fraction) -> str:
    """A whole number as it is, else rounded to `MAX_DECIMALS` decimals, without zeros at the end."""
    if value.denominator == 1:
        return str(value.numerator)
    scaled = round(value * 10**MAX_DECIMALS)
    digits = f"{abs(scaled):0{MAX_DECIMALS + 1}d}"
    whole, part = digits[:-MAX_DECIMALS], digits[-MAX_DECIMALS:].rstrip("0")
    return ("-" if scaled < 0 else "") + whole + (f".{part}" if part else "")


def _value(node: ast.expr, depth: int) -> Fraction:
    if depth > MAX_DEPTH:
        raise ToolError("the expression is nested too deep")
    match node:
        case ast.Constant(value=bool()):
            raise ToolError("only numbers can be reckoned with")
        case ast.Constant(value=int() | float() as number):
            return _bounded(Fraction(str(number)) if abs(number) < 1e300 else None)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, depth + 1)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, depth + 1), _value(right, depth + 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            one, other = _value(left, depth + 1), _value(right, depth + 1)
            if other == 0 and not isinstance(op, ast.Add | ast.Sub | ast.Mult):
                raise ToolError("division by zero")
            return _bounded(Fraction(_BINARY[type(op)](one, other)))
    raise ToolError("only numbers, + - * / // % ** and brackets can be used")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        raise ToolError(f"an exponent must be whole and no larger than {MAX_EXPONENT}")
    if base == 0 and exponent < 0:
        raise ToolError("division by zero")
    if max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(exponent) > 2 * MAX_BITS:
        raise ToolError("the result is too large")
    return _bounded(Fraction(base**exponent.numerator))


def _bounded(value: Fraction | None) -> Fraction:
    if value is None or max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ToolError("the result is too large")
    return value
