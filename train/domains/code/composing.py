"""Composes functions from steps, with cases that tell them from what they are not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from train.domains.code.steps import EDGES, ENDS, INPUTS, NOUNS, STEPS, Kind, Step
from train.transcript import JsonValue

NUM_HIDDEN: Final = 16
NUM_SHOWN: Final = 3
MAX_SHARED: Final = 0.5
"""Of the hidden cases, how many may have one value: a constant must fail."""
MAX_TRIES: Final = 200
_NAMES: Final = ("solve", "transform", "convert", "process", "compute", "change", "run", "apply")

Case = list[JsonValue]
"""Arguments and value."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A function, its story and its cases."""

    name: str
    kind: Kind
    words: tuple[str, ...]
    """What each step does."""
    expressions: tuple[str, ...]
    shown: tuple[Case, ...]
    hidden: tuple[Case, ...]

    @property
    def source(self) -> str:
        """The function as code, a line for each step."""
        return source_of(self.name, self.expressions)

    @property
    def story(self) -> str:
        """The steps as a numbered list, or one as a sentence."""
        takes = f"takes {NOUNS[self.kind]}"
        if len(self.words) == 1:
            return f"{takes} and does this: {self.words[0]}. It returns the result."
        steps = "\n".join(f"{place}. {words}" for place, words in enumerate(self.words, 1))
        return f"{takes}, does these steps one after another and returns the result:\n{steps}"


def composed(rng: random.Random, kind: Kind, num_steps: int, *, may_end: bool = True) -> Composed:
    """A function of so many steps, none of them idle: without any one of them some hidden case would differ."""
    for _ in range(MAX_TRIES):
        steps = rng.sample(STEPS[kind], num_steps)
        if may_end and num_steps > 1 and rng.random() < 0.4:
            steps[-1] = rng.choice(ENDS[kind])
        drawn = [_drawn(rng, step) for step in steps]
        words, expressions = (tuple(part) for part in zip(*drawn, strict=True))
        name = rng.choice(_NAMES)
        inputs = [INPUTS[kind](rng) for _ in range(NUM_HIDDEN + NUM_SHOWN)]
        function = loaded(source_of(name, expressions), name)
        cases = _cases(function, [*EDGES[kind], *inputs])
        hidden = [*cases[:-NUM_SHOWN]]
        if _tells(hidden) and not any(
            _is_idle(name, expressions, place, hidden) for place in range(num_steps)
        ):
            return Composed(name, kind, words, expressions, tuple(cases[-NUM_SHOWN:]), tuple(hidden))
    raise RuntimeError(f"no function of {num_steps} steps in {MAX_TRIES} tries")


def source_of(name: str, expressions: tuple[str, ...]) -> str:
    """A function that evaluates the expressions one after another on `x`."""
    lines = [f"    x = {expression}" for expression in expressions[:-1]]
    return "\n".join((f"def {name}(x):", *lines, f"    return {expressions[-1]}"))


def loaded(source: str, name: str) -> Callable[..., JsonValue]:
    """The function that a source of ours defines. Never give it anything that a policy wrote."""
    scope: dict[str, Callable[..., JsonValue]] = {}
    exec(compile(source, "<composed>", "exec"), scope)  # noqa: S102  our own steps
    return scope[name]


def fails(function: Callable[..., JsonValue], cases: tuple[Case, ...] | list[Case]) -> bool:
    """Whether it is wrong in some case."""
    for given, expected in cases:
        assert isinstance(given, list)
        try:
            value = function(*given)
        except Exception:  # noqa: BLE001  a mutant of ours may raise anything
            return True
        if type(value) is not type(expected) or value != expected:
            return True
    return False


def _drawn(rng: random.Random, step: Step) -> tuple[str, str]:
    k = rng.choice(step.draws)
    # Braces of a comprehension do not occur, so both are plain formats.
    return step.words.format(k=k), step.expression.format(k=k)


def _cases(function: Callable[..., JsonValue], inputs: list[JsonValue]) -> list[Case]:
    cases: list[Case] = []
    for given in inputs:
        try:
            cases.append([[given], function(given)])
        except (IndexError, ValueError):  # an edge that the steps do not cover is no case
            continue
    return cases


def _tells(cases: list[Case]) -> bool:
    """Whether neither a constant nor the identity would pass, by far."""
    if len(cases) < NUM_HIDDEN:
        return False
    values = [repr(value) for _, value in cases]
    same = sum(repr(given) == f"[{value}]" for (given, _), value in zip(cases, values, strict=True))
    return max(Counter(values).values()) <= MAX_SHARED * len(cases) and same <= MAX_SHARED * len(cases)


def _is_idle(name: str, expressions: tuple[str, ...], place: int, cases: list[Case]) -> bool:
    without = (*expressions[:place], "x", *expressions[place + 1 :])
    return not fails(loaded(source_of(name, without), name), cases)
