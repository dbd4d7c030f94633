"""Mutants of a function: the same code with one thing wrong, each wrong in some case."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from train.domains.code.composing import Case, Composed, fails, loaded
from train.transcript import JsonValue

_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
}
_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALLS: Final = {
    "max": "min",
    "min": "max",
    "sum": "len",
    "len": "sum",
    "upper": "lower",
    "sorted": "list",
    "abs": "int",
}
_MISSPELT: Final = {
    "x": "xs", "v": "u", "sorted": "sort", "sum": "total", "len": "length", "max": "maximum", "abs": "absolute",
    "split": "splits", "join": "joined", "replace": "substitute", "upper": "uppercase", "str": "string",
    "int": "integer",
}  # fmt: skip


def mutants(made: Composed) -> list[str]:
    """Sources that run and are wrong in some hidden case, in an order of their own; none twice."""
    return [source for source in _variants(made.source, _changes) if _is_wrong(made, source)]


def broken(made: Composed) -> list[str]:
    """Sources that raise a NameError, an AttributeError or a TypeError in the first shown case."""
    return [source for source in _variants(made.source, _misspellings) if _raises(made, source)]


def survivors(sources: Sequence[str], name: str, cases: Sequence[Case]) -> list[str]:
    """Those of our mutants that are right in every case."""
    return [source for source in sources if not fails(loaded(source, name), list(cases))]


def _variants(source: str, changes: Callable[[ast.AST], Iterator[Callable[[], None]]]) -> list[str]:
    """The source with each change alone."""
    found: dict[str, None] = {}
    original = ast.unparse(ast.parse(source))
    place = 0
    while True:
        tree = ast.parse(source)
        every = [change for node in ast.walk(tree) for change in changes(node)]
        if place == len(every):
            break
        every[place]()
        place += 1
        text = ast.unparse(tree)
        if text != original:
            found.setdefault(text)
    return list(found)


def _changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    match node:
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            operator = _OPERATORS[type(op)]
            yield lambda: setattr(node, "op", operator())
        case ast.Compare(ops=[test]) if type(test) in _COMPARISONS:
            comparison = _COMPARISONS[type(test)]
            yield lambda: setattr(node, "ops", [comparison()])
        case ast.Constant(value=bool(value)):
            yield lambda: setattr(node, "value", not value)
        case ast.Constant(value=int(value)):
            for other in (value + 1, value - 1):
                yield lambda other=other: setattr(node, "value", other)  # type: ignore[misc]
        case ast.Name(id=name) if name in _CALLS:
            yield lambda: setattr(node, "id", _CALLS[name])
        case ast.Attribute(attr=name) if name in _CALLS:
            yield lambda: setattr(node, "attr", _CALLS[name])
        case ast.IfExp(body=body, orelse=orelse):
            yield lambda: vars(node).update(body=orelse, orelse=body)


def _misspellings(node: ast.AST) -> Iterator[Callable[[], None]]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in _MISSPELT:
            yield lambda: setattr(node, "id", _MISSPELT[name])
        case ast.Attribute(attr=name) if name in _MISSPELT:
            yield lambda: setattr(node, "attr", _MISSPELT[name])
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield lambda: setattr(node, "value", str(value))


def _is_wrong(made: Composed, source: str) -> bool:
    """Wrong in some hidden case, and running in all shown ones: a mutant that always raises is no puzzle."""
    function = loaded(source, made.name)
    try:
        for given, _ in made.shown:
            assert isinstance(given, list)
            function(*given)
    except Exception:  # noqa: BLE001  a mutant of ours may raise anything
        return False
    return fails(function, made.hidden)


def _raises(made: Composed, source: str) -> bool:
    given: JsonValue = made.shown[0][0]
    assert isinstance(given, list)
    try:
        loaded(source, made.name)(*given)
    except (NameError, AttributeError, TypeError):
        return True
    except Exception:  # noqa: BLE001  another kind of mistake; not the one wanted
        return False
    return False


def picked(rng: random.Random, sources: Sequence[str], num: int) -> list[str]:
    """So many of them, or all."""
    return rng.sample(list(sources), min(num, len(sources)))
