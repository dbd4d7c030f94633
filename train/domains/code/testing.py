"""Write tests that tell a function from its mutants.

The tests are a few asserts of literals, read and never run: an assert can neither look at the code that it tests nor
find out which of the functions stands before it.
"""

from __future__ import annotations

import ast
import random
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.code.composing import Case, Composed, composed, fails, loaded
from train.domains.code.judging import code_of, parsed
from train.domains.code.mutants import mutants, picked, survivors
from train.domains.code.steps import Kind
from train.domains.task import Task, TaskDomain
from train.transcript import JsonValue, Transcript

MAX_CHARS: Final = 1_500
MAX_SIZE: Final = 10**6
"""Of a number in a test."""
_NUM_MUTANTS: Final = (1, 2, 3, 4)
_NUM_STEPS: Final = (1, 1, 2, 3)
_NUM_ASSERTS: Final = (1, 1, 2, 2)


def _drawn(rng: random.Random, level: int) -> Task:
    while True:
        made = composed(rng, rng.choice(list(Kind)), _NUM_STEPS[level])
        against = picked(rng, mutants(made), _NUM_MUTANTS[level])
        killing = _killing(made, against, _NUM_ASSERTS[level])
        if len(against) == _NUM_MUTANTS[level] and killing:
            break
    listed = "\n\n".join(f"Mutant {place}:\n{source}" for place, source in enumerate(against, 1))
    many = (
        "one assert"
        if _NUM_ASSERTS[level] == 1
        else f"at most {_NUM_ASSERTS[level]} asserts, each on a line of its own,"
    )
    return Task(
        f"This function is right:\n{made.source}\n\nThese mutants of it are wrong:\n{listed}\n\n"
        f"Write {many} of the form\nassert {made.name}(…) == …\n"
        "with literals only. The right function must pass all, and every mutant must fail at least one.",
        "\n".join(f"assert {made.name}({_literal(case[0])}) == {case[1]!r}" for case in killing),
        {
            "function": made.name,
            "source": made.source,
            "mutants": list(against),
            "asserts": _NUM_ASSERTS[level],
        },
    )


def _literal(given: JsonValue) -> str:
    assert isinstance(given, list)
    return repr(given[0])


def _killing(made: Composed, against: list[str], num_asserts: int) -> list[Case]:
    """Cases that kill all, each the one that kills most of what is left; none if that takes too many."""
    chosen: list[Case] = []
    left = list(against)
    while left and len(chosen) < num_asserts:
        best = min(made.hidden, key=lambda case: len(survivors(left, made.name, [case])))
        chosen.append(best)
        left = survivors(left, made.name, [best])
    return [] if left else chosen


def _judged(item: Item, transcript: Transcript) -> Verdict:
    name = str(item.data["function"])
    against = item.data["mutants"]
    assert isinstance(against, list)
    cases = cases_of(code_of(transcript.answer), name)
    if isinstance(cases, str):
        return Verdict(score=0.0, passed=False, evidence=cases)
    if len(cases) > int(str(item.data["asserts"])):
        return Verdict(score=0.0, passed=False, evidence=f"{len(cases)} asserts are too many")
    if fails(loaded(str(item.data["source"]), name), cases):
        return Verdict(score=0.0, passed=False, evidence="the right function fails an assert")
    alive = survivors([str(source) for source in against], name, cases)
    if alive:
        return Verdict(
            score=0.0, passed=False, evidence=f"{len(alive)} of {len(against)} mutants pass every assert"
        )
    return Verdict(score=1.0, passed=True)


def cases_of(code: str, name: str) -> list[Case] | str:
    """The cases that asserts state, or why they are none."""
    tree = parsed(code) if len(code) <= MAX_CHARS else "too long"
    if isinstance(tree, str):
        return tree
    cases: list[Case] = []
    for statement in tree.body:
        match statement:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=called), args=[given], keywords=[]),
                    ops=[ast.Eq()],
                    comparators=[value],
                ),
                msg=None,
            ) if called == name:
                try:
                    case = [[ast.literal_eval(given)], ast.literal_eval(value)]
                except (ValueError, TypeError, MemoryError, RecursionError):
                    return "an assert holds something that is no literal"
                if not all(_is_plain(part) for part in (case[0][0], case[1])):
                    return "an assert holds something that is no plain value, or too large"
                cases.append(case)
            case _:
                return f"every statement must be of the form: assert {name}(…) == …"
    return cases or "no assert"


def _is_plain(value: object) -> bool:
    """A string, a bounded number, or a list of numbers: what the functions take and give."""
    if isinstance(value, list):
        return all(isinstance(part, int) and abs(part) <= MAX_SIZE for part in value)
    return isinstance(value, str) or (isinstance(value, int) and abs(value) <= MAX_SIZE**2)


DOMAINS: Final = (
    TaskDomain(
        "code_tests",
        "Write asserts that a function passes and every given mutant of it fails; judged by running all of them.",
        _drawn,
        _judged,
    ),
)
