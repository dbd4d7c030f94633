"""One line among lines that all look like it: a report that is nothing but numbers of things."""

from __future__ import annotations

import random
from itertools import product
from math import isqrt
from typing import ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.drawn import DrawnDomain, Question
from train.domains.words import made_up_words

LINES: Final = (12, 36, 105, 315, 880, 1_600)
"""By level, of some nineteen tokens each."""


class KeysDomain(DrawnDomain):
    """RULER's multi-key needle (arXiv:2404.06654): all sentences are distractors, each half of a key is in others."""

    name: ClassVar[str] = "document_keys"
    description: ClassVar[str] = (
        "Find the number of one key in a document of nothing but keys and numbers; checked exactly."
    )
    family: ClassVar[Family] = Family.DOCUMENTS
    num_levels: ClassVar[int] = len(LINES)

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        num = LINES[level]
        halves = made_up_words(rng, isqrt(2 * num) + 2)
        keys = rng.sample(sorted(product(halves, repeat=2)), num)
        numbers = rng.sample(range(10_000, 100_000), num)
        lines = [
            f"The number of {one}-{other} is {value}."
            for (one, other), value in zip(keys, numbers, strict=True)
        ]
        asked = rng.randrange(num)
        return Question(
            prompt="\n".join(lines)
            + f"\n\nWhat is the number of {'-'.join(keys[asked])}? Answer with the number alone.",
            answer=str(numbers[asked]),
        )


DOMAIN: Final[Domain] = KeysDomain()
