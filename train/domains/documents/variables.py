"""Variables that are set to one another all over a long report."""

from __future__ import annotations

import random
from itertools import pairwise
from string import ascii_uppercase
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.listed import LENGTHS, ListedDomain
from train.domains.documents.text import rendered, sections
from train.domains.drawn import Question

NAME_LENGTH: Final = 4


class VariablesDomain(ListedDomain):
    """RULER's variable tracking (arXiv:2404.06654): chains of assignments in their order, of which one is asked for."""

    name: ClassVar[str] = "document_variables"
    description: ClassVar[str] = (
        "List the variables that have a value, by chains of assignments in a long report; checked as a set."
    )

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        document = sections(rng, LENGTHS[level])
        num_chains, length = 2 + level // 2, 3 + (level + 1) // 2
        names = _names(rng, num_chains * length)
        chains = [names[start : start + length] for start in range(0, len(names), length)]
        values = rng.sample(range(10_000, 100_000), num_chains)
        for chain, value in zip(chains, values, strict=True):
            said = [
                f"Let {chain[0]} be {value}.",
                *(f"Let {b} be {a}." for a, b in pairwise(chain)),
            ]
            _place(rng, document, said)
        return Question(
            prompt=f"{rendered(document)}\n\nWhich variables are {values[0]}, directly or through others? "
            "Answer with all of them, parted by commas, such as ABCD, EFGH.",
            answer=", ".join(chains[0]),
        )


def _place(rng: random.Random, document: list[list[str]], said: list[str]) -> None:
    """Put sentences in, those of one chain in their order: a variable is set before it is used."""
    for number, sentence in zip(sorted(rng.choices(range(len(document)), k=len(said))), said, strict=True):
        section = document[number]
        before = [place for place, other in enumerate(section) if other in said]
        section.insert(rng.randrange(before[-1] + 1 if before else 0, len(section) + 1), sentence)


def _names(rng: random.Random, num: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < num:
        names["".join(rng.choices(ascii_uppercase, k=NAME_LENGTH))] = None
    return list(names)


DOMAIN: Final[Domain] = VariablesDomain()
