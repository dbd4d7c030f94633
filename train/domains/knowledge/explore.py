"""The shortest way where the map can only be asked for one town at a time."""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING, ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.knowledge.roads import drawn_roads, far_apart, shortest
from train.domains.tool_use.task import ToolDomain, ToolTask, calling, one_by_one

if TYPE_CHECKING:
    from networkx import Graph


class ExploreDomain(ToolDomain):
    """The reference asks as Dijkstra would (1959). A level is three towns more; there is one shortest way."""

    name: ClassVar[str] = "knowledge_explore"
    description: ClassVar[str] = (
        "Find the shortest way by asking for neighbours; checked by the way, calls cost."
    )
    family: ClassVar[Family] = Family.KNOWLEDGE

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        while True:
            roads = drawn_roads(rng, 5 + 3 * level, 2 + 2 * level)
            start, goal = far_apart(rng, roads)
            ways = shortest(roads, start, goal)
            if len(ways) == 1:
                break
        edges = sorted([*sorted(edge), int(roads.edges[edge]["weight"])] for edge in roads.edges)
        return ToolTask(
            prompt=f"What is the shortest way from {start} to {goal}? The graph tells the neighbours of a town. "
            "Answer with all towns on the way in order, parted by commas.",
            tools={"graph": {"edges": [*edges]}},
            turns=one_by_one(
                *(calling("graph_neighbours", node=town) for town in _asked(roads, start, goal))
            ),
            answer=", ".join(ways[0]),
        )


def _asked(roads: Graph[str], start: str, goal: str) -> list[str]:
    """The towns that must be asked for: all that are nearer than the goal, nearest first."""
    asked: list[str] = []
    heap = [(0, start)]
    while heap:
        far, town = heapq.heappop(heap)
        if town == goal:
            break
        if town not in asked:
            asked.append(town)
            for other in roads[town]:
                heapq.heappush(heap, (far + int(roads.edges[town, other]["weight"]), other))
    return asked


DOMAIN: Final[Domain] = ExploreDomain()
