"""Tables in several documents, of which each leads to the next."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.documents.cited import CitedDomain
from train.domains.documents.text import LENGTHS, rendered, sections
from train.domains.drawn import Question
from train.domains.words import made_up_words


class TablesDomain(CitedDomain):
    """Parts and their makers, makers and their towns, towns and days of delivery: the tables grow with the level."""

    name: ClassVar[str] = "document_tables"
    description: ClassVar[str] = (
        "Look a thing up through three tables in three documents; checked by result and way."
    )

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        num = 4 + 4 * level
        names = made_up_words(rng, 3 * num, 3)
        parts, makers, towns = names[:num], names[num : 2 * num], names[2 * num :]
        maker_of = {part: rng.choice(makers) for part in parts}
        town_of = {maker: rng.choice(towns) for maker in makers}
        days_of = dict(zip(towns, rng.sample(range(2, 400), num), strict=True))
        asked = rng.choice(parts)
        maker = maker_of[asked]
        documents = [
            _document(rng, level, "Parts", ("part", "maker"), list(maker_of.items())),
            _document(rng, level, "Makers", ("maker", "town"), list(town_of.items())),
            _document(rng, level, "Delivery", ("town", "days"), list(days_of.items())),
        ]
        rng.shuffle(documents)
        return Question(
            prompt="\n\n".join(documents)
            + f"\n\nHow many days does the delivery of the part {asked} take, and who makes it? "
            "Answer with the days and the maker, such as 12; barlo.",
            answer=f"{days_of[town_of[maker]]}; {maker}",
        )


def _document(
    rng: random.Random, level: int, title: str, head: tuple[str, str], rows: Sequence[tuple[str, str | int]]
) -> str:
    lines = [" | ".join(head), *(f"{one} | {other}" for one, other in rng.sample(rows, len(rows)))]
    return f"{rendered(sections(rng, LENGTHS[level] // 3), title)}\n\nTable\n" + "\n".join(lines)


DOMAIN: Final[Domain] = TablesDomain()
