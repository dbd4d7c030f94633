"""A way from fact to fact through a long report."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.cited import CitedDomain
from train.domains.documents.text import LENGTHS, hidden, rendered, sections
from train.domains.drawn import Question
from train.domains.words import people


class HopsDomain(CitedDomain):
    """Keys that are handed on, from two hands to seven; a second chain of the same form leads elsewhere."""

    name: ClassVar[str] = "document_hops"
    description: ClassVar[str] = (
        "Follow facts spread over a long report; checked by the last one and the section cited."
    )

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        parts = sections(rng, LENGTHS[level])
        names = people(rng, 2 * (level + 2))
        chains = names[: level + 2], names[level + 2 :]
        rooms = rng.sample(range(100, 1_000), 2)
        facts = [
            fact
            for chain, room in zip(chains, rooms, strict=True)
            for fact in (
                f"{chain[-1]} keeps the key in room {room}.",
                *(f"{one} has handed the key on to {other}." for one, other in pairwise(chain)),
            )
        ]
        places = hidden(rng, parts, facts)
        return Question(
            prompt=f"{rendered(parts)}\n\n{chains[0][0]} had a key. In which room is it kept now, and "
            "which section says so? "
            "Answer with the room and the number of the section, such as 123; 4.",
            answer=f"{rooms[0]}; {places[0]}",
        )


DOMAIN: Final[Domain] = HopsDomain()
