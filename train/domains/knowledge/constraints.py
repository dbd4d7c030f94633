"""Facts about people, and conditions that all of those who are named must fulfil."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.drawn import DrawnDomain, Question
from train.domains.words import CITIES, THINGS, people
from train.verifiers.answers import items, judged

Person = dict[str, Any]


class ConstraintsDomain(DrawnDomain):
    """A level is one condition and four people more."""

    name: ClassVar[str] = "knowledge_constraints"
    description: ClassVar[str] = "Name all who fulfil some conditions; checked as a set of names."
    family: ClassVar[Family] = Family.KNOWLEDGE

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        while True:
            cities, things = rng.sample(CITIES, 3), rng.sample(THINGS, 4)
            known: list[Person] = [
                {
                    "name": name,
                    "city": rng.choice(cities),
                    "age": rng.randrange(18, 80),
                    "things": rng.sample(things, rng.randrange(1, 4)),
                }
                for name in people(rng, 5 + 4 * level)
            ]
            conditions = rng.sample(_conditions(rng, cities, things), 1 + level)
            found = [one["name"] for one in known if all(holds(one) for _, holds in conditions)]
            if found and len(found) < len(known):
                break
        facts = " ".join(
            f"{one['name']} is {one['age']}, lives in {one['city']} and has: {', '.join(one['things'])}."
            for one in known
        )
        return Question(
            prompt=f"{facts} Who {' and '.join(told for told, _ in conditions)}? Answer with all names, "
            "parted by commas.",
            answer=", ".join(found),
        )

    def judge(self, item: Item, text: str) -> Verdict:
        """All of them and nobody else, each once, in any order."""
        said = [name.casefold() for name in items(text) or ()]
        is_right = sorted(said) == sorted(item.answer.casefold().split(", "))
        return judged(is_right, "" if is_right else "somebody is missing, or does not fulfil every condition")


def _conditions(
    rng: random.Random, cities: list[str], things: list[str]
) -> list[tuple[str, Callable[[Person], bool]]]:
    age, city, other = rng.randrange(30, 65), rng.choice(cities), rng.choice(cities)
    one, two, num = *rng.sample(things, 2), rng.choice((2, 3))
    return [
        (f"is older than {age}", lambda person: person["age"] > age),
        (f"lives in {city}", lambda person: person["city"] == city),
        (f"does not live in {other}", lambda person: person["city"] != other),
        (f"has a {one} or a {two}", lambda person: one in person["things"] or two in person["things"]),
        (f"has no {two}", lambda person: two not in person["things"]),
        (f"has fewer than {num} things", lambda person: len(person["things"]) < num),
    ]


DOMAIN: Final[Domain] = ConstraintsDomain()
