"""A word of capitals in a haystack of small letters: retrieval for a policy of characters, at any distance."""

from __future__ import annotations

import random
from string import ascii_uppercase
from typing import ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.drawn import DrawnDomain, Question

LENGTHS: Final = (16, 32, 64, 128, 256, 512, 1024)
"""Characters of the haystack by level."""
WORD_LENGTH: Final = 4


class TerseNeedleDomain(DrawnDomain):
    """A level doubles the haystack; the word stays as long as it is."""

    name: ClassVar[str] = "terse_needle"
    description: ClassVar[str] = "Say the word of capitals in a haystack of small letters; checked exactly."
    family: ClassVar[Family] = Family.DOCUMENTS
    num_levels: ClassVar[int] = len(LENGTHS)

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        word = "".join(rng.sample(ascii_uppercase, WORD_LENGTH))
        hay = "".join(rng.choices("abcdefghij", k=LENGTHS[level] - WORD_LENGTH))
        place = rng.randrange(len(hay) + 1)
        return Question(prompt=f"{hay[:place]}{word}{hay[place:]}?", answer=word)


DOMAIN: Final[Domain] = TerseNeedleDomain()
