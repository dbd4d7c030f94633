"""Kinds of kinds, what is usual for each, and exceptions: what is nearest counts."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.drawn import DrawnDomain, Question
from train.domains.words import PEOPLE, made_up_words


class KindsDomain(DrawnDomain):
    """A tree of made-up kinds. A level is one kind more between the thing and the root, and more branches."""

    name: ClassVar[str] = "knowledge_ontology"
    description: ClassVar[str] = (
        "Look up what a kind inherits, nearest rule first; the answer is a made-up word."
    )
    family: ClassVar[Family] = Family.KNOWLEDGE

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        depth = 3 + level
        words = made_up_words(rng, 3 * depth + 8)
        line, others, values = words[:depth], words[depth : 2 * depth], words[2 * depth :]
        property_ = rng.choice(("food", "song", "shelter", "colour"))
        facts = [f"Every {child} is a {parent}." for parent, child in pairwise(line)]
        facts += [f"Every {other} is a {rng.choice(line)}." for other in others]
        ruled = {line[0], *rng.sample(line[1:], rng.randrange(1, depth - 1))}
        rules = {kind: values[place] for place, kind in enumerate(line) if kind in ruled}
        rules |= {
            other: value for other, value in zip(others, values[depth:], strict=False) if rng.random() < 0.6
        }
        facts += [
            f"The {property_} of a {kind} is {value}, unless a nearer rule says otherwise."
            for kind, value in rules.items()
        ]
        rng.shuffle(facts)
        name = rng.choice(PEOPLE)
        return Question(
            prompt=f"{' '.join(facts)} {name} is a {line[-1]}. What is the {property_} of {name}? Answer "
            "with one word.",
            answer=next(rules[kind] for kind in reversed(line) if kind in rules),
        )


DOMAIN: Final[Domain] = KindsDomain()
