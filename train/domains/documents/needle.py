"""One number in a long report, among others like it."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.cited import CitedDomain
from train.domains.documents.text import LENGTHS, hidden, rendered, sections
from train.domains.drawn import Question
from train.domains.words import THINGS


class NeedleDomain(CitedDomain):
    """A level makes the report longer, and adds numbers of other things."""

    name: ClassVar[str] = "document_needle"
    description: ClassVar[str] = (
        "Find a number in a long report; checked by the number and the section cited."
    )

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        parts = sections(rng, LENGTHS[level])
        things = rng.sample(THINGS, 2 + level)
        codes = rng.sample(range(10_000, 100_000), len(things))
        facts = [f"The code of the {thing} is {code}." for thing, code in zip(things, codes, strict=True)]
        places = hidden(rng, parts, facts)
        return Question(
            prompt=f"{rendered(parts)}\n\nWhat is the code of the {things[0]}, and in which section is it? "
            "Answer with the code and the number of the section, such as 12345; 6.",
            answer=f"{codes[0]}; {places[0]}",
        )


DOMAIN: Final[Domain] = NeedleDomain()
