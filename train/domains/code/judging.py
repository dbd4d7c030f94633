"""The verdict on a function: right if every hidden call returns what it should, else nothing."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.code.calls import LIMITS, Calls, Target, call, is_same
from train.sandbox.limits import Limits
from train.transcript import JsonValue
from train.verifiers.answers import final_block

MODULE: Final = "solution"
MAX_EVIDENCE_CHARS: Final = 600

Cases = Sequence[Sequence[JsonValue]]
"""Pairs of arguments and value."""


def code_of(text: str) -> str:
    """The code in an answer: its last fenced block, or all of it."""
    return final_block(text).strip()


def judge_function(
    text: str, function: str, cases: Cases, *, limits: Limits = LIMITS, tolerance: float = 1e-6
) -> Verdict:
    """Whether the code in an answer defines a function that is right in every case.

    Raises:
        UnavailableError: nothing isolates here, so nothing was run.
    """
    code = code_of(text)
    wrong = malformed(code, function)
    if wrong:
        return Verdict(score=0.0, passed=False, evidence=wrong)
    [calls] = call({f"{MODULE}.py": code}, [Target(MODULE, function, arguments(cases))], limits)
    return verdict_on(calls, function, cases, tolerance=tolerance)


def arguments(cases: Cases) -> list[list[JsonValue]]:
    """What each case calls with."""
    return [list(case[0]) if isinstance(case[0], list) else [case[0]] for case in cases]


def verdict_on(calls: Calls, function: str, cases: Cases, *, tolerance: float = 1e-6) -> Verdict:
    """What the results of the calls are worth; evidence tells the first that is wrong, not what it should have been."""
    if calls.failure or not cases:
        return Verdict(score=0.0, passed=False, evidence=_shown(calls.failure))
    for case, given, result in zip(cases, arguments(cases), calls.results, strict=True):
        if result.raised:
            return Verdict(
                score=0.0, passed=False, evidence=_shown(f"{_call(function, given)} raised\n{result.raised}")
            )
        if not is_same(result.value, case[1], tolerance=tolerance):
            said = f"{_call(function, given)} returned {result.value!r}, which is wrong"
            return Verdict(score=0.0, passed=False, evidence=_shown(said))
    return Verdict(score=1.0, passed=True)


def malformed(code: str, function: str) -> str:
    """Why the code cannot even be tried; empty if it can."""
    tree = parsed(code)
    if isinstance(tree, str):
        return tree
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return "" if function in defined else f"no function {function} is defined"


def parsed(code: str) -> ast.Module | str:
    """The syntax tree, or what is wrong with the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            return f"{type(error).__name__}: {error}"[:200]


def hidden_cases(item: Item) -> Cases:
    """The cases that an item keeps for its verifier."""
    cases = item.data["cases"]
    assert isinstance(cases, list)
    return [case for case in cases if isinstance(case, list)]


def shown_cases(function: str, cases: Cases) -> str:
    """Cases as examples in a prompt."""
    given = zip(cases, arguments(cases), strict=True)
    return "\n".join(f"{_call(function, these)} == {case[1]!r}" for case, these in given)


def _call(function: str, given: Sequence[JsonValue]) -> str:
    shown = ", ".join(map(repr, given))
    return f"{function}({shown if len(shown) <= 200 else shown[:200] + '…'})"


def _shown(text: str) -> str:
    return text[-MAX_EVIDENCE_CHARS:]
