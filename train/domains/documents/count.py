"""How many sections of a long report say a thing, in which of several ways."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.cited import CitedDomain
from train.domains.documents.text import LENGTHS, rendered, sections
from train.domains.drawn import Question
from train.domains.words import TOPICS

_FAILED: Final = (
    "The inspection of the {topic} was failed.",
    "The {topic} did not pass its inspection.",
    "No certificate was given, for the inspection of the {topic} went badly.",
)
_PASSED: Final = (
    "The inspection of the {topic} was passed.",
    "The {topic} did not fail its inspection.",
    "The inspection of the {topic} went well, and a certificate was given.",
)


class CountDomain(CitedDomain):
    """Half of the sections, more or less, tell of a failure, most of the others of a success."""

    name: ClassVar[str] = "document_count"
    description: ClassVar[str] = (
        "Count the sections that tell of a failure; checked by the number and the last of them."
    )

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        parts = sections(rng, LENGTHS[level], section_length=3)
        share = rng.uniform(0.2, 0.9)
        failed: list[int] = []
        for number, part in enumerate(parts, 1):
            is_failed = rng.random() < share
            if is_failed:
                failed.append(number)
            said = rng.choice(_FAILED if is_failed else _PASSED)
            if is_failed or rng.random() < 0.8:
                part.insert(rng.randrange(len(part) + 1), said.format(topic=rng.choice(TOPICS)))
        return Question(
            prompt=f"{rendered(parts)}\n\nIn how many sections was an inspection failed, and which is the "
            "last of them? "
            "Answer with both numbers, such as 2; 5, or with 0; none.",
            answer=f"{len(failed)}; {failed[-1] if failed else 'none'}",
        )


DOMAIN: Final[Domain] = CountDomain()
