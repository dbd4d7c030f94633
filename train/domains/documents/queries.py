"""Several numbers out of a long report, asked for at once."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.listed import LENGTHS, ListedDomain
from train.domains.documents.text import hidden, rendered, sections
from train.domains.drawn import Question
from train.domains.words import THINGS, listed


class QueriesDomain(ListedDomain):
    """RULER's multi-query needle (arXiv:2404.06654): the numbers of some things, among those of as many others."""

    name: ClassVar[str] = "document_queries"
    description: ClassVar[str] = (
        "Give the numbers of several things in a long report; checked in the order asked for."
    )
    is_ordered: ClassVar[bool] = True

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        document = sections(rng, LENGTHS[level])
        num_asked = 2 + (level + 1) // 2
        things = rng.sample(THINGS, 2 * num_asked)
        codes = rng.sample(range(10_000, 100_000), len(things))
        hidden(
            rng,
            document,
            [f"The code of the {thing} is {code}." for thing, code in zip(things, codes, strict=True)],
        )
        return Question(
            prompt=f"{rendered(document)}\n\nWhat are the codes of {listed([f'the {t}' for t in things[:num_asked]])}? "
            "Answer with the codes in this order, parted by commas, such as 12345, 67890.",
            answer=", ".join(map(str, codes[:num_asked])),
        )


DOMAIN: Final[Domain] = QueriesDomain()
