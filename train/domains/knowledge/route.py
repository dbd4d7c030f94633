"""The shortest way between two towns."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any, ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.drawn import DrawnDomain, Question
from train.domains.knowledge.roads import drawn_roads, far_apart, shortest
from train.verifiers.answers import items, judged


class RouteDomain(DrawnDomain):
    """The roads are told. A way that can be gone earns the shortest length over its own; a level is four towns more."""

    name: ClassVar[str] = "knowledge_graph"
    description: ClassVar[str] = (
        "Find a shortest way on a map of roads; any shortest is right, a longer one earns less."
    )
    family: ClassVar[Family] = Family.KNOWLEDGE

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        roads = drawn_roads(rng, 5 + 4 * level, 3 + 3 * level)
        start, goal = far_apart(rng, roads)
        told = [[*sorted(edge), int(roads.edges[edge]["weight"])] for edge in roads.edges]
        rng.shuffle(told)
        text = ", ".join(f"{one}-{other} {km} km" for one, other, km in told)
        return Question(
            prompt=f"Roads: {text}. What is the shortest way from {start} to {goal}? "
            "Answer with all towns on it in order, parted by commas.",
            answer=", ".join(shortest(roads, start, goal)[0]),
            data={"roads": [*told]},
        )

    def judge(self, item: Item, text: str) -> Verdict:
        """`valid` is whether the way can be gone at all."""
        data: Any = item.data
        km = {frozenset((one.casefold(), other.casefold())): length for one, other, length in data["roads"]}
        best = [town.casefold() for town in item.answer.split(", ")]
        way = [town.casefold() for town in items(text) or ()]
        can_be_gone = (
            len(way) > 1
            and (way[0], way[-1]) == (best[0], best[-1])
            and all(frozenset(step) in km for step in pairwise(way))
        )
        if not can_be_gone:
            return judged(False, "this is no way along the roads from the one town to the other")
        least, taken = (sum(km[frozenset(step)] for step in pairwise(each)) for each in (best, way))
        return Verdict(
            score=least / taken,
            passed=taken == least,
            parts={"valid": 1.0, "length": least / taken},
            evidence="" if taken == least else "there is a shorter way",
        )


DOMAIN: Final[Domain] = RouteDomain()
