"""Functions to be written, corrected and completed: judged by hidden calls.

A level is one step more. What is written from a description, what is put right, and what fills a gap are all judged by
the same calls, run in the sandbox.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.code.composing import composed, source_of
from train.domains.code.judging import hidden_cases, judge_function, parsed, shown_cases
from train.domains.code.mutants import mutants
from train.domains.code.steps import Kind
from train.domains.task import Task, TaskDomain
from train.transcript import Transcript, answered
from train.verifiers.answers import final_answer

GAP: Final = "____"
KINDS: Final = tuple(Kind)
_ONLY: Final = "Answer with the code only."


def judge_written(item: Item, transcript: Transcript) -> Verdict:
    """Right if every hidden call is."""
    return judge_function(transcript.answer, str(item.data["function"]), hidden_cases(item))


def _written(kind: Kind) -> Callable[[random.Random, int], Task]:
    def draw(rng: random.Random, level: int) -> Task:
        made = composed(rng, kind, level + 1)
        examples = shown_cases(made.name, made.shown)
        return Task(
            f"Write a Python function {made.name} that {made.story}\nExamples:\n{examples}\n{_ONLY}",
            made.source,
            {"function": made.name, "cases": list(made.hidden)},
        )

    return draw


def _corrected(rng: random.Random, level: int) -> Task:
    made = composed(rng, rng.choice(KINDS), level + 1)
    while not (found := mutants(made)):
        made = composed(rng, rng.choice(KINDS), level + 1)
    return Task(
        f"This function {made.story}\nBut it has a bug:\n{rng.choice(found)}\n"
        f"Examples of what it should do:\n{shown_cases(made.name, made.shown)}\n"
        f"Write the whole function without the bug. {_ONLY}",
        made.source,
        {"function": made.name, "cases": list(made.hidden)},
    )


def _completed(rng: random.Random, level: int) -> Task:
    made = composed(rng, rng.choice(KINDS), level + 1)
    place = rng.randrange(len(made.expressions))
    gap = source_of(made.name, (*made.expressions[:place], GAP, *made.expressions[place + 1 :]))
    return Task(
        f"This function {made.story}\nOne expression in it is missing:\n{gap}\n"
        f"Examples:\n{shown_cases(made.name, made.shown)}\n"
        f"What must stand in place of {GAP}? Answer with the expression only.",
        made.expressions[place],
        {"function": made.name, "cases": list(made.hidden), "gap": gap},
    )


def _judge_completed(item: Item, transcript: Transcript) -> Verdict:
    """The gap filled with one expression: code by itself and in brackets, so that none leads out of its place."""
    said = final_answer(transcript.answer)
    tree = parsed(f"({said}\n)")
    if isinstance(tree, str) or isinstance(parsed(said), str):
        return Verdict(score=0.0, passed=False, evidence=f"{said[:60]!r} is not one expression")
    if not any(isinstance(node, ast.Name) and node.id == "x" for node in ast.walk(tree)):
        return Verdict(score=0.0, passed=False, evidence=f"{said[:60]!r} does nothing with x")
    filled = str(item.data["gap"]).replace(GAP, f"({said})")
    return judge_written(item, answered(filled))


DOMAINS: Final = (
    *(
        TaskDomain(
            f"code_{kind}s",
            f"Write a function on {kind}s; hidden calls, run in a sandbox, must all be right.",
            _written(kind),
            judge_written,
        )
        for kind in Kind
    ),
    TaskDomain(
        "code_fix", "Find and mend a bug in a function; judged by hidden calls.", _corrected, judge_written
    ),
    TaskDomain(
        "code_complete", "Fill a gap in a function; judged by hidden calls.", _completed, _judge_completed
    ),
)
