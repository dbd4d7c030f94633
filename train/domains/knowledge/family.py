"""Who is related to whom, over generations."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.drawn import DrawnDomain, Question
from train.domains.words import people
from train.verifiers.answers import items, judged


@dataclass(frozen=True, slots=True)
class Tree:
    """Parents, one or two of each person who has any."""

    parents: dict[str, tuple[str, ...]]

    def children(self, one: str) -> set[str]:
        """Of a person."""
        return {child for child, parents in self.parents.items() if one in parents}

    def siblings(self, one: str) -> set[str]:
        """Who share a parent."""
        return {child for parent in self.parents.get(one, ()) for child in self.children(parent)} - {one}

    def grandchildren(self, one: str) -> set[str]:
        """Children's children."""
        return {grandchild for child in self.children(one) for grandchild in self.children(child)}

    def grandparents(self, one: str) -> set[str]:
        """Parents' parents."""
        return {each for parent in self.parents.get(one, ()) for each in self.parents.get(parent, ())}

    def parents_siblings(self, one: str) -> set[str]:
        """Aunts and uncles."""
        return {each for parent in self.parents.get(one, ()) for each in self.siblings(parent)}

    def nephews(self, one: str) -> set[str]:
        """Siblings' children."""
        return {child for sibling in self.siblings(one) for child in self.children(sibling)}

    def cousins(self, one: str) -> set[str]:
        """Children of aunts and uncles."""
        return {child for each in self.parents_siblings(one) for child in self.children(each)}

    def great_grandchildren(self, one: str) -> set[str]:
        """Children's children's children."""
        return {each for grandchild in self.grandchildren(one) for each in self.children(grandchild)}


_RELATIONS: Final[tuple[tuple[tuple[str, Callable[[Tree, str], set[str]]], ...], ...]] = (
    (("children", Tree.children), ("siblings (at least one parent in common)", Tree.siblings)),
    (("grandchildren", Tree.grandchildren), ("grandparents", Tree.grandparents)),
    (("aunts and uncles by blood", Tree.parents_siblings), ("nieces and nephews by blood", Tree.nephews)),
    (("cousins", Tree.cousins), ("great-grandchildren", Tree.great_grandchildren)),
)


class FamilyDomain(DrawnDomain):
    """A level asks for a relation one step farther, in a larger family."""

    name: ClassVar[str] = "knowledge_family"
    description: ClassVar[str] = (
        "Name all relatives of a kind from a list of parents; checked as a set of names."
    )
    family: ClassVar[Family] = Family.KNOWLEDGE

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        while True:
            tree = _drawn(rng, 2 + level)
            told, relation = rng.choice(_RELATIONS[level])
            asked = [
                one for one in sorted({*tree.parents, *sum(tree.parents.values(), ())}) if relation(tree, one)
            ]
            if asked:
                break
        one = rng.choice(asked)
        facts = [f"{child} is a child of {' and '.join(parents)}." for child, parents in tree.parents.items()]
        rng.shuffle(facts)
        return Question(
            prompt=f"{' '.join(facts)} Who are the {told} of {one}? Answer with all names, parted by commas.",
            answer=", ".join(sorted(relation(tree, one))),
        )

    def judge(self, item: Item, text: str) -> Verdict:
        """All of them and nobody else, each once."""
        said = [name.casefold() for name in items(text) or ()]
        is_right = sorted(said) == sorted(item.answer.casefold().split(", "))
        return judged(is_right, "" if is_right else "somebody is missing, or does not belong there")


def _drawn(rng: random.Random, num_generations: int) -> Tree:
    """Each generation has up to six people; every second of them or so has a partner from outside."""
    names = iter(people(rng, 60))
    parents: dict[str, tuple[str, ...]] = {}
    generation = [next(names)]
    for _ in range(num_generations):
        children: list[str] = []
        for one in generation:
            couple = (one, next(names)) if rng.random() < 0.6 else (one,)
            for _ in range(rng.choice((1, 2, 2, 3))):
                if len(children) < 6:
                    child = next(names)
                    parents[child] = couple
                    children.append(child)
        generation = children
    return Tree(parents)


DOMAIN: Final[Domain] = FamilyDomain()
