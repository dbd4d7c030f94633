"""Capitals in a haystack of small letters: retrieval for a policy of characters, at any distance."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.drawn import DrawnDomain, Question

LENGTHS: Final = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Characters of the haystack by level, needles among them."""
NUM_NEEDLES: Final = 4


class TerseNeedleDomain(DrawnDomain):
    """A level doubles the haystack; the needles stay as many as they are."""

    name: ClassVar[str] = "terse_needle"
    description: ClassVar[str] = (
        "Say the capitals in a haystack of small letters, in alphabetical order; checked exactly."
    )
    family: ClassVar[Family] = Family.DOCUMENTS
    num_levels: ClassVar[int] = len(LENGTHS)

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        letters = rng.sample("ABCDEFGHIJKL", NUM_NEEDLES)
        hay = rng.choices("abcdefghij", k=LENGTHS[level])
        for place, letter in zip(rng.sample(range(len(hay)), NUM_NEEDLES), letters, strict=True):
            hay[place] = letter
        return Question(prompt="".join(hay) + "?", answer="".join(sorted(letters)))


DOMAIN: Final[Domain] = TerseNeedleDomain()
