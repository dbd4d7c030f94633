"""Repair loops: an attempt, what came of it, and another attempt.

The task shows a first attempt with the traceback that it ended in; every answer of a transcript is a further attempt,
and the last one is judged. Of a transcript with several, `recovered` tells whether the last is right and one before was
not.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import replace
from typing import Final

from train.domains.base import Item, Verdict
from train.domains.code.calls import LIMITS, Target, call
from train.domains.code.composing import Composed, composed, loaded
from train.domains.code.judging import (
    MODULE,
    arguments,
    code_of,
    hidden_cases,
    malformed,
    shown_cases,
    verdict_on,
)
from train.domains.code.mutants import broken
from train.domains.code.steps import Kind
from train.domains.task import Task, TaskDomain
from train.transcript import Transcript

MAX_ATTEMPTS: Final = 4
"""The last so many of a transcript are looked at."""


def _drawn(rng: random.Random, level: int) -> Task:
    while True:
        made = composed(rng, rng.choice(list(Kind)), level + 1)
        if found := broken(made):
            break
    attempt = rng.choice(found)
    call_text = shown_cases(made.name, made.shown[:1]).rpartition(" == ")[0]
    return Task(
        f"Write a Python function {made.name} that {made.story}\nExamples:\n{shown_cases(made.name, made.shown)}\n"
        f"Your first attempt was\n{attempt}\nand {call_text} ended in\n{_story(made, attempt)}\n"
        "Write the whole function again, without the mistake. Answer with the code only.",
        made.source,
        {"function": made.name, "cases": list(made.hidden)},
    )


def _story(made: Composed, source: str) -> str:
    """The traceback of a broken source of ours, as Python would print it for `solution.py`."""
    given = made.shown[0][0]
    assert isinstance(given, list)
    try:
        loaded(source, made.name)(*given)
    except (NameError, AttributeError, TypeError) as error:
        lines = source.splitlines()
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<composed>"
        ]
        told = [
            f'  File "{MODULE}.py", line {frame.lineno}, in {frame.name}\n    {lines[(frame.lineno or 1) - 1].strip()}'
            for frame in frames
        ]
        return "\n".join(("Traceback (most recent call last):", *told, f"{type(error).__name__}: {error}"))
    raise RuntimeError("a broken source does not raise")


def _judged(item: Item, transcript: Transcript) -> Verdict:
    """The verdict on the last attempt; those before it run in the same start of the sandbox."""
    function, cases = str(item.data["function"]), hidden_cases(item)
    attempts = [code_of(turn.text) for turn in transcript.messages if turn.role == "assistant"][
        -MAX_ATTEMPTS:
    ]
    if not transcript.answer.strip():
        return Verdict(score=0.0, passed=False, evidence="no answer")
    wrong = [malformed(code, function) for code in attempts]
    runnable = {place: code for place, code in enumerate(attempts) if not wrong[place]}
    files = {f"{MODULE}_{place}.py": code for place, code in runnable.items()}
    targets = [Target(f"{MODULE}_{place}", function, arguments(cases)) for place in runnable]
    called = call(files, targets, LIMITS) if targets else []
    verdicts = [Verdict(score=0.0, passed=False, evidence=evidence) for evidence in wrong]
    for place, calls in zip(runnable, called, strict=True):
        verdicts[place] = verdict_on(calls, function, cases)
    last = verdicts[-1]
    had_failed = not all(verdict.passed for verdict in verdicts[:-1])
    return (
        replace(last, parts={"recovered": float(last.passed and had_failed)}) if len(verdicts) > 1 else last
    )


DOMAINS: Final = (
    TaskDomain(
        "code_repair",
        "Mend an attempt by its traceback, over one or more turns; the last is judged by hidden calls.",
        _drawn,
        _judged,
    ),
)
