"""Tasks whose answer stands in the task: the tools are there, and using them costs."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain
from train.domains.tool_use.task import ToolDomain, ToolTask
from train.domains.words import CITIES, THINGS, people


class NoneNeededDomain(ToolDomain):
    """Facts about people, one of which is asked for. A level is more facts, and more of them alike."""

    name: ClassVar[str] = "tool_none_needed"
    description: ClassVar[str] = (
        "Answer from the task itself; each call of the tools on offer costs a quarter."
    )
    price: ClassVar[float] = 0.25

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        names = people(rng, 2 + 2 * level)
        cities, things = rng.sample(CITIES, len(names)), rng.sample(THINGS, len(names))
        rows = list(zip(names, cities, things, strict=True))
        facts = " ".join(f"{name} lives in {city} and has the {thing}." for name, city, thing in rows)
        name, city, thing = rng.choice(rows)
        asked, answer = rng.choice(
            (
                (f"Where does {name} live?", city),
                (f"What does {name} have?", thing),
                (f"Who lives in {city}?", name),
                (f"In which city is the {thing}?", city),
            )
        )
        return ToolTask(
            prompt=f"{facts} {asked} Answer with one word.",
            tools={
                "calculator": {},
                "store": {"entries": {name.lower(): other for name, _, other in rows[1:]}},
            },
            turns=(),
            answer=answer,
        )


DOMAIN: Final[Domain] = NoneNeededDomain()
