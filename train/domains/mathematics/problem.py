"""A kind of mathematical problem as a domain: a draw, and the form in which its answer is to be given."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from train.domains.base import Family, Item, Verdict
from train.domains.mathematics.forms import FORMS, Form
from train.seeds import seed_of
from train.transcript import Transcript, answered
from train.verifiers.answers import final_answer, judged

NUM_LEVELS: Final = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem."""

    prompt: str
    answer: str
    form: Form


Draw = Callable[[random.Random, int], Problem]
"""A problem of a level."""


@dataclass(frozen=True, slots=True)
class MathematicsDomain:
    """One kind of problem."""

    name: str
    description: str
    draw: Draw
    family: Family = Family.MATHEMATICS
    num_levels: int = NUM_LEVELS

    def item(self, seed: int, index: int, level: int) -> Item:
        """As `Domain.item`."""
        problem = self.draw(random.Random(seed_of(seed, self.name, index, level)), level)
        return Item(
            domain=self.name,
            level=level,
            seed=seed,
            index=index,
            prompt=problem.prompt,
            answer=problem.answer,
            data={"form": problem.form.value},
            max_answer_tokens=2 * len(problem.answer) + 8,
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """Right where the last line is equal to the answer and has the form that was asked for."""
        said = final_answer(transcript.answer)
        form = Form(str(item.data["form"]))
        is_right = bool(said) and FORMS[form](said, item.answer)
        return judged(
            is_right, "" if is_right else f"{said[:60]!r} is not the answer: wanted is {form.wanted}"
        )

    def reference(self, item: Item) -> Transcript:
        """The answer."""
        return answered(item.answer)
