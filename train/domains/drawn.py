"""What domains share whose item is drawn from its seed and judged by its answer alone."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from train.domains.base import Family, Item, Verdict
from train.seeds import seed_of
from train.transcript import JsonValue, Transcript, answered
from train.verifiers.answers import final_answer, is_number, judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and what is right."""

    prompt: str
    answer: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)


class DrawnDomain(ABC):
    """A domain of questions; `judge` says how an answer is checked, by default as a text."""

    name: ClassVar[str]
    description: ClassVar[str]
    family: ClassVar[Family]
    num_levels: ClassVar[int] = 4

    @abstractmethod
    def draw(self, rng: random.Random, level: int) -> Question:
        """A question of this level."""

    def judge(self, item: Item, text: str) -> Verdict:
        """What a final answer is worth."""
        return judged(is_text(text, item.answer), _wrong(text, item.answer))

    def item(self, seed: int, index: int, level: int) -> Item:
        """As `Domain.item`."""
        question = self.draw(random.Random(seed_of(seed, self.name, index, level)), level)
        return Item(
            domain=self.name,
            level=level,
            seed=seed,
            index=index,
            prompt=question.prompt,
            answer=question.answer,
            data=question.data,
            max_answer_tokens=2 * len(question.answer) // 3 + 16,
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """As `Domain.verify`."""
        return self.judge(item, final_answer(transcript.answer))

    def reference(self, item: Item) -> Transcript:
        """As `Domain.reference`."""
        return answered(item.answer)


class NumberDomain(DrawnDomain):
    """Questions whose answer is a number, to be met exactly."""

    def judge(self, item: Item, text: str) -> Verdict:
        """Right or wrong."""
        is_right = is_number(text, Fraction(item.answer))
        return judged(is_right, "" if is_right else f"{text[:40]!r} is not the number")


def is_text(text: str, expected: str) -> bool:
    """Whether it is this text, letter case and doubled blanks apart."""
    return bool(expected) and text.casefold().split() == expected.casefold().split()


def _wrong(text: str, expected: str) -> str:
    return "" if is_text(text, expected) else f"{text[:40]!r} is not the answer"
