"""Terse tasks of a few characters: what a policy of a million weights can learn in minutes, and a large one at once.

The recipes that prove the loop (`r0`, `r1`) train on them. A level is one more digit, letter or operand.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from train.domains import terse_workings as workings
from train.domains.base import Family, Item, Verdict
from train.seeds import seed_of
from train.transcript import Transcript, answered
from train.verifiers.answers import final_answer, judged

NUM_LEVELS: Final = 4
LETTERS: Final = "abcdefghij"

Working = Callable[[str, str], str]
"""From a prompt and its answer to how it is worked out."""
Task = Callable[[random.Random, int], tuple[str, str]]
"""Draws a task of so many digits, letters or operands: prompt and answer."""


@dataclass(frozen=True, slots=True)
class TerseDomain:
    """One kind of task; its answer is a text that must be said exactly."""

    name: str
    description: str
    task: Task
    working: Working
    family: Family = Family.REASONING
    num_levels: int = NUM_LEVELS

    def item(self, seed: int, index: int, level: int) -> Item:
        """As `Domain.item`."""
        rng = random.Random(seed_of(seed, self.name, index, level))
        prompt, answer = self.task(rng, level + 1)
        return Item(
            domain=self.name,
            level=level,
            seed=seed,
            index=index,
            prompt=prompt,
            answer=answer,
            max_answer_tokens=2 * len(answer) + 2,
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """Right or wrong."""
        said = final_answer(transcript.answer)
        return judged(said == item.answer, "" if said == item.answer else f"{said[:40]!r} is not the answer")

    def reference(self, item: Item) -> Transcript:
        """The answer."""
        return answered(item.answer)

    def worked(self, item: Item) -> str:
        """As `Worked.worked`."""
        return self.working(item.prompt, item.answer)


def _addition(rng: random.Random, size: int) -> tuple[str, str]:
    one, other = rng.randrange(10**size), rng.randrange(10**size)
    return f"{one}+{other}=", str(one + other)


def _subtraction(rng: random.Random, size: int) -> tuple[str, str]:
    one, other = rng.randrange(10**size), rng.randrange(10**size)
    return f"{one}-{other}=", str(one - other)


def _letters(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(LETTERS, k=size + 3))


def _reversal(rng: random.Random, size: int) -> tuple[str, str]:
    word = _letters(rng, size)
    return f"reverse {word}:", word[::-1]


def _sorting(rng: random.Random, size: int) -> tuple[str, str]:
    word = _letters(rng, size)
    return f"sort {word}:", "".join(sorted(word))


def _counting(rng: random.Random, size: int) -> tuple[str, str]:
    letter = rng.choice(LETTERS)
    word = [rng.choice((letter, *LETTERS)) for _ in range(2 * size + 3)]
    return f"count {letter} in {''.join(word)}:", str(word.count(letter))


def _maximum(rng: random.Random, size: int) -> tuple[str, str]:
    numbers = [rng.randrange(100) for _ in range(size + 1)]
    return f"max {' '.join(map(str, numbers))}:", str(max(numbers))


def _remainder(rng: random.Random, size: int) -> tuple[str, str]:
    number, divisor = rng.randrange(10 * 4**size), rng.randrange(3, 10)
    return f"{number} mod {divisor}=", str(number % divisor)


def _copying(rng: random.Random, size: int) -> tuple[str, str]:
    word = _letters(rng, 2 * size)
    return f"copy {word}:", word


DOMAINS: Final = tuple(
    TerseDomain(f"terse_{name}", description, task, working)
    for name, description, task, working in (
        (
            "addition",
            "Add two numbers; the answer is the sum and nothing else.",
            _addition,
            workings.addition,
        ),
        (
            "subtraction",
            "Subtract one number from another; the answer is the difference.",
            _subtraction,
            workings.subtraction,
        ),
        ("reversal", "Write letters backwards; the answer is those letters.", _reversal, workings.numbering),
        (
            "sorting",
            "Write letters in alphabetical order; the answer is those letters.",
            _sorting,
            workings.sorting,
        ),
        (
            "counting",
            "Count a letter in a row of letters; the answer is the number.",
            _counting,
            workings.counting,
        ),
        (
            "maximum",
            "Name the greatest of a few numbers; the answer is that number.",
            _maximum,
            workings.maximum,
        ),
        (
            "remainder",
            "Divide and name the remainder; the answer is that number.",
            _remainder,
            workings.remainder,
        ),
        ("copying", "Write letters as they are; the answer is those letters.", _copying, workings.numbering),
    )
)
