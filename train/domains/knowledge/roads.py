"""Roads between towns, as a drawn graph that leads from any town to any other."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from train.domains.words import made_up_words

if TYPE_CHECKING:
    from networkx import Graph

MAX_LENGTH = 20


def drawn_roads(rng: random.Random, num_towns: int, num_more: int) -> Graph[str]:
    """A tree of roads and so many more; lengths in km are the edges' `weight`."""
    from networkx import Graph

    towns = [name.capitalize() for name in made_up_words(rng, num_towns)]
    roads: Graph[str] = Graph()
    for place, town in enumerate(towns[1:], 1):
        roads.add_edge(
            town, rng.choice(towns[max(0, place - 4) : place]), weight=rng.randrange(1, MAX_LENGTH)
        )
    while roads.number_of_edges() < num_towns - 1 + num_more:
        one, other = rng.sample(towns, 2)
        if not roads.has_edge(one, other):
            roads.add_edge(one, other, weight=rng.randrange(1, MAX_LENGTH))
    return roads


def shortest(roads: Graph[str], start: str, goal: str) -> list[list[str]]:
    """All shortest ways."""
    from networkx import all_shortest_paths

    return list(all_shortest_paths(roads, start, goal, weight="weight"))


def far_apart(rng: random.Random, roads: Graph[str]) -> tuple[str, str]:
    """Two towns without a road between them."""
    towns = sorted(roads)
    while True:
        start, goal = rng.sample(towns, 2)
        if not roads.has_edge(start, goal):
            return start, goal
