"""Knowledge: judged by meaning; generators agree with slow readers of their own prompts."""

from __future__ import annotations

import re

import networkx as nx
import pytest

from train.domains import catalog
from train.domains.base import Verdict
from train.domains.knowledge.family import Tree
from train.transcript import answered


def verdict(domain: str, level: int, text: str, index: int = 0) -> Verdict:
    found = catalog.get(domain)
    return found.verify(found.item(2, index, level), answered(text))


def test_a_query_counts_by_what_it_finds() -> None:
    """Another query of the same meaning is right, in a fence as well; a near one, and a list of the rows, is not."""
    domain = catalog.get("knowledge_sql")
    item = domain.item(2, 0, 0)
    [members, city, age, least] = re.findall(
        r"FROM (\w+) WHERE city = '(\w+)' AND (\w+) >= (\d+)", item.answer
    )[0]
    same = f"```sql\nSELECT DISTINCT m.name\nFROM {members} m\nWHERE NOT {age} < {least} AND m.city LIKE '{city}';\n```"
    assert verdict("knowledge_sql", 0, same).score == 1.0
    for wrong in (
        f"SELECT name FROM {members} WHERE city = '{city}'",
        f"SELECT name FROM {members} WHERE city = '{city}' AND {age} > {least}",
        f"SELECT name, {age} FROM {members} WHERE city = '{city}' AND {age} >= {least}",
        f"SELECT name FROM {members}",
        "SELECT 1",
        f"DELETE FROM {members}",
        f"{item.answer}; {item.answer}",
        f"The query is {item.answer}",
        "SELECT",
    ):
        assert verdict("knowledge_sql", 0, wrong).score == 0.0, wrong


def test_a_longer_way_earns_less_and_no_way_nothing() -> None:
    """Least length over length; jumps, wrong ends and towns that are not there are no way."""
    domain = catalog.get("knowledge_graph")
    item = domain.item(2, 0, 1)
    roads = nx.Graph()
    for one, other, km in re.findall(r"(\w+)-(\w+) (\d+) km", item.prompt):
        roads.add_edge(one, other, weight=int(km))
    best = item.answer.split(", ")
    least = nx.dijkstra_path_length(roads, best[0], best[-1])
    ways = sorted(
        (nx.path_weight(roads, way, "weight"), way) for way in nx.all_simple_paths(roads, best[0], best[-1])
    )
    assert ways[0][0] == least
    longer, way = next(each for each in ways if each[0] > least)
    found = verdict("knowledge_graph", 1, ", ".join(way))
    assert found.score == pytest.approx(least / longer)
    assert not found.passed
    assert verdict("knowledge_graph", 1, item.answer.upper()).score == 1.0
    for wrong in (f"{best[0]}, {best[-1]}", ", ".join(best[:-1]), ", ".join(best[::-1]), best[0], "a, b", ""):
        assert verdict("knowledge_graph", 1, wrong).score == 0.0, wrong


def test_relations_in_a_small_family() -> None:
    """Four generations by hand."""
    tree = Tree(
        {
            "Bo": ("Al", "Ad"),
            "Ba": ("Al",),
            "Cy": ("Bo", "Bi"),
            "Ce": ("Ba",),
            "Co": ("Ba",),
            "Di": ("Ce",),
        }
    )
    assert tree.children("Al") == {"Bo", "Ba"}
    assert tree.siblings("Bo") == {"Ba"}
    assert tree.grandparents("Cy") == {"Al", "Ad"}
    assert tree.grandchildren("Ad") == {"Cy"}
    assert tree.parents_siblings("Cy") == {"Ba"}
    assert tree.nephews("Bo") == {"Ce", "Co"}
    assert tree.cousins("Cy") == {"Ce", "Co"}
    assert tree.great_grandchildren("Al") == {"Di"}
    assert tree.great_grandchildren("Bo") == set()


@pytest.mark.parametrize("domain", ["knowledge_family", "knowledge_constraints"])
def test_sets_of_names_in_any_order_all_and_no_more(domain: str) -> None:
    """One too few, one too many and one twice are wrong."""
    found = catalog.get(domain)
    item = next(item for item in (found.item(2, index, 1) for index in range(50)) if ", " in item.answer)
    names = item.answer.split(", ")

    def score(text: str) -> float:
        return found.verify(item, answered(text)).score

    assert score(", ".join(reversed(names)).upper()) == 1.0
    assert score(", ".join(names[1:])) == 0.0
    assert score(", ".join([*names, names[0]])) == 0.0
    assert score(", ".join([*names, "Nobody"])) == 0.0


def test_the_nearest_rule_counts() -> None:
    """One who climbs from the thing's kind to the first rule comes to the reference."""
    for level in range(4):
        for index in range(5):
            item = catalog.get("knowledge_ontology").item(2, index, level)
            above = dict(re.findall(r"Every (\w+) is a (\w+)\.", item.prompt))
            rules = dict(re.findall(r"of a (\w+) is (\w+), unless", item.prompt))
            kind = re.findall(r"\. \w+ is a (\w+)\. What", item.prompt)[0]
            while kind not in rules:
                kind = above[kind]
            assert rules[kind] == item.answer


def test_the_only_shortest_way_is_asked_for() -> None:
    """Exploring items have one answer: no other way is as short."""
    for index in range(5):
        item = catalog.get("knowledge_explore").item(2, index, 2)
        roads = nx.Graph()
        roads.add_weighted_edges_from(item.environment.tools["graph"]["edges"])  # type: ignore[union-attr, arg-type]
        way = item.answer.split(", ")
        assert list(nx.all_shortest_paths(roads, way[0], way[-1], weight="weight")) == [way]
