"""All numbers that a long report gives of one thing."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.listed import LENGTHS, ListedDomain
from train.domains.documents.text import hidden, rendered, sections
from train.domains.drawn import Question
from train.domains.words import THINGS


class ValuesDomain(ListedDomain):
    """RULER's multi-value needle (arXiv:2404.06654): several numbers of one thing, and as many of others."""

    name: ClassVar[str] = "document_values"
    description: ClassVar[str] = "List all numbers that a long report gives of one thing; checked as a set."

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        document = sections(rng, LENGTHS[level])
        things = rng.sample(THINGS, 2 + level // 2)
        num_values = 2 + (level + 1) // 2
        codes = rng.sample(range(10_000, 100_000), len(things) * num_values)
        owners = [thing for thing in things for _ in range(num_values)]
        facts = [
            f"One of the codes of the {thing} is {code}." for thing, code in zip(owners, codes, strict=True)
        ]
        hidden(rng, document, facts)
        return Question(
            prompt=f"{rendered(document)}\n\nWhich codes does the {things[0]} have? "
            "Answer with all of them, parted by commas, such as 12345, 67890.",
            answer=", ".join(map(str, codes[:num_values])),
        )


DOMAIN: Final[Domain] = ValuesDomain()
