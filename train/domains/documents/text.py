"""Reports in numbered sections, of any length, in which facts can be hidden. None of the filling states such a fact."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from train.domains.words import CITIES, PEOPLE, TOPICS, made_up

LENGTHS: Final = (12, 40, 120, 360, 1_000, 2_000)
"""Sentences by level, of some sixteen tokens each: from 200 tokens to about 32,000."""
SECTION_LENGTH: Final = 8

_FILLING: Final = (
    "The {topic} in {city} was visited by {person}, who found little to remark on.",
    "{person} wrote a letter to {other} about the weather in {city}.",
    "A meeting at the {topic} was put off twice and then held in {city}.",
    "Repairs to the roof of the {topic} began in spring and were done by autumn.",
    "{person} and {other} agreed that the {topic} should stay open on Sundays.",
    "Visitors to the {topic} praised the view over {city} and the quiet of its halls.",
    "The road from {city} to the {topic} was closed for a week after the rain.",
    "A photograph of the old {topic} hangs in the office of {person}.",
    "{person} of {city} gave a speech that nobody wrote down.",
    "The word {word}, painted on the wall of the {topic}, has never been explained.",
)


def sections(rng: random.Random, num_sentences: int, section_length: int = SECTION_LENGTH) -> list[list[str]]:
    """Sections of filling, at least four, with so many sentences altogether, or nearly."""
    num = max(4, round(num_sentences / section_length))
    length = max(2, num_sentences // num)
    return [[_sentence(rng) for _ in range(length)] for _ in range(num)]


def hidden(rng: random.Random, parts: list[list[str]], facts: Sequence[str]) -> list[int]:
    """Put each fact somewhere, and tell in which sections they stand, counted from 1. Few sections hold two."""
    order = rng.sample(range(len(parts)), len(parts))
    places = [order[index % len(order)] for index in range(len(facts))]
    for place, fact in zip(places, facts, strict=True):
        parts[place].insert(rng.randrange(len(parts[place]) + 1), fact)
    return [place + 1 for place in places]


def rendered(parts: Sequence[Sequence[str]], title: str = "") -> str:
    """The document."""
    heading = f"{title}\n\n" if title else ""
    return heading + "\n\n".join(
        f"Section {number}. {' '.join(part)}" for number, part in enumerate(parts, 1)
    )


def _sentence(rng: random.Random) -> str:
    person, other = rng.sample(PEOPLE, 2)
    return rng.choice(_FILLING).format(
        topic=rng.choice(TOPICS), city=rng.choice(CITIES), person=person, other=other, word=made_up(rng)
    )
