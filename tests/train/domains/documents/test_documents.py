"""Documents: facts stand once, where they are said to stand; values and places are paid as told."""

from __future__ import annotations

import random
import re

import pytest

from train.domains import catalog
from train.domains.base import Item
from train.domains.documents.cited import cited
from train.domains.documents.text import LENGTHS, hidden, rendered, sections


def section_of(item: Item, place: str) -> str:
    found = re.search(rf"Section {place}\. (.*?)(?:\n\n|$)", item.prompt, re.S)
    assert found
    return found[1]


def test_a_fact_stands_where_it_is_said_to() -> None:
    """Filling never holds the fact; its section does, once."""
    rng = random.Random(5)
    parts = sections(rng, 200)
    places = hidden(rng, parts, ["FACT ONE.", "FACT TWO."])
    assert len(set(places)) == 2
    for fact, place in zip(("FACT ONE.", "FACT TWO."), places, strict=True):
        assert rendered(parts).count(fact) == 1
        assert fact in parts[place - 1]


def test_lengths_go_up_to_thirty_two_thousand_tokens() -> None:
    """The longest report has some 140,000 characters, of which four to five make a token."""
    lengths = [len(catalog.get("document_needle").item(0, 0, level).prompt) for level in range(len(LENGTHS))]
    assert lengths == sorted(lengths)
    assert 120_000 < lengths[-1] < 160_000
    assert lengths[0] < 1_500


@pytest.mark.parametrize(
    ("text", "score", "retrieval", "consistency"),
    [
        ("12; 3", 1.0, 1.0, 1.0),
        (" 12 ;3", 1.0, 1.0, 1.0),
        ("12", 0.5, 0.0, 0.0),
        ("12; 4", 0.5, 0.0, 0.0),
        ("13; 3", 0.0, 1.0, 0.0),
        ("13; 4", 0.0, 0.0, 1.0),
        ("3; 12", 0.0, 0.0, 1.0),
        ("12; 3; 12", 0.0, 0.0, 0.0),
        ("12; ", 0.0, 0.0, 0.0),
        ("", 0.0, 0.0, 0.0),
    ],
)
def test_values_and_places(text: str, score: float, retrieval: float, consistency: float) -> None:
    """Half for a value alone, nothing for a place alone; parts are told apart."""
    verdict = cited("12; 3", text)
    assert verdict.score == score
    assert verdict.passed == (score == 1.0)
    assert (verdict.parts["retrieval"], verdict.parts["consistency"]) == (retrieval, consistency)


@pytest.mark.parametrize("level", [0, 2])
def test_the_needle_is_in_its_section(level: int) -> None:
    """And nowhere else."""
    for index in range(5):
        item = catalog.get("document_needle").item(1, index, level)
        code, place = item.answer.split("; ")
        assert item.prompt.count(code) == 1
        assert code in section_of(item, place)


def test_a_chain_of_hands_can_be_followed() -> None:
    """One who follows the notes by rule comes to the reference's room."""
    for index in range(5):
        item = catalog.get("document_hops").item(1, index, 2)
        handed = dict(re.findall(r"(\w+) has handed the key on to (\w+)\.", item.prompt))
        rooms = dict(re.findall(r"(\w+) keeps the key in room (\d+)\.", item.prompt))
        one = re.findall(r"(\w+) had a key\.", item.prompt)[0]
        num = 0
        while one in handed:
            one, num = handed[one], num + 1
        assert num == 3
        assert item.answer.split("; ")[0] == rooms[one]


def test_failures_are_counted_as_a_reader_would() -> None:
    """Each way of saying it counts, and none of saying the opposite."""
    for index in range(5):
        item = catalog.get("document_count").item(1, index, 2)
        failed = [
            number
            for number, text in re.findall(r"Section (\d+)\. (.*?)(?=\n\n|$)", item.prompt, re.S)
            if re.search(r"inspection of the \w+ was failed|did not pass its inspection|No certificate", text)
        ]
        assert item.answer == f"{len(failed)}; {failed[-1] if failed else 'none'}"


def test_reports_contradict_each_other_once() -> None:
    """Read as figures by thing, the two differ in one, which is the answer."""
    for index in range(5):
        item = catalog.get("document_conflict").item(1, index, 2)
        figures = []
        for report in item.prompt.split("Second report"):
            said = re.findall(
                r"The (\w+) has (\d+) rooms|There are (\d+) rooms in the (\w+)|Of rooms, the (\w+) counts (\d+)",
                report,
            )
            figures.append({one or other or third: a or b or c for one, a, b, other, third, c in said})
        assert figures[0].keys() == figures[1].keys()
        [odd] = [thing for thing in figures[0] if figures[0][thing] != figures[1][thing]]
        assert item.answer == f"{odd}; {figures[0][odd]}; {figures[1][odd]}"


def test_the_right_thing_with_wrong_figures_is_worth_a_quarter() -> None:
    """And figures without the thing nothing."""
    domain = catalog.get("document_conflict")
    item = domain.item(1, 0, 0)
    thing, one, other = item.answer.split("; ")
    for text, score in ((f"{thing}; 1; 2", 0.25), (f"x; {one}; {other}", 0.0), (thing, 0.0)):
        said = domain.reference(item).messages[0]
        assert (
            domain.verify(item, type(domain.reference(item))((type(said)("assistant", text),))).score == score
        )


def test_tables_lead_to_the_answer() -> None:
    """One who joins the three tables comes to the reference."""
    for index in range(5):
        item = catalog.get("document_tables").item(1, index, 1)
        rows = dict(re.findall(r"^(\w+) \| (\w+)$", item.prompt, re.M))
        asked = re.findall(r"the part (\w+) take", item.prompt)[0]
        assert item.answer == f"{rows[rows[rows[asked]]]}; {rows[asked]}"
