"""Two reports on the same matter that contradict each other in one thing."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.documents.text import LENGTHS, hidden, rendered, sections
from train.domains.drawn import DrawnDomain, Question, is_text
from train.domains.words import TOPICS
from train.verifiers.answers import items

THING_WORTH: Final = 0.25
"""Of the right thing with wrong figures."""

_WORDINGS: Final = (
    "The {thing} has {figure} rooms.",
    "There are {figure} rooms in the {thing}.",
    "Of rooms, the {thing} counts {figure}.",
)


class ConflictDomain(DrawnDomain):
    """Figures in either report, in different words and another order; one differs. A level adds length and figures."""

    name: ClassVar[str] = "document_conflict"
    description: ClassVar[str] = (
        "Find where two reports contradict each other; checked by the thing and both figures."
    )
    family: ClassVar[Family] = Family.DOCUMENTS
    num_levels: ClassVar[int] = len(LENGTHS)

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        things = rng.sample(TOPICS, 4 + 3 * level)
        figures = {thing: rng.randrange(10, 1_000) for thing in things}
        odd = things[0]
        changed = figures[odd] + rng.choice((-1, 1)) * rng.randrange(1, 9)
        reports = []
        for title, known in (("First report", figures), ("Second report", {**figures, odd: changed})):
            parts = sections(rng, LENGTHS[level] // 2)
            order = rng.sample(things, len(things))
            hidden(
                rng,
                parts,
                [rng.choice(_WORDINGS).format(thing=thing, figure=known[thing]) for thing in order],
            )
            reports.append(rendered(parts, title))
        return Question(
            prompt="\n\n".join(reports)
            + "\n\nIn one number of rooms the reports contradict each other. Answer with what it is of, the number "
            "in the first report and that in the second, such as mill; 12; 13.",
            answer=f"{odd}; {figures[odd]}; {changed}",
        )

    def judge(self, item: Item, text: str) -> Verdict:
        """`retrieval` is the thing, `consistency` the two figures."""
        said, expected = items(text, ";") or (), item.answer.split("; ")
        right = [is_text(one, other) for one, other in zip(said, expected, strict=False)]
        is_thing = len(said) == 3 and right[0]
        is_right = len(said) == 3 and all(right)
        return Verdict(
            score=1.0 if is_right else THING_WORTH * is_thing,
            passed=is_right,
            parts={
                "retrieval": float(is_thing),
                "consistency": sum(right[1:]) / 2 if len(said) == 3 else 0.0,
            },
            evidence="" if is_right else "this is not where the reports contradict each other, or not how",
        )


DOMAIN: Final[Domain] = ConflictDomain()
