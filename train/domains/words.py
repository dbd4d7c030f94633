"""Names that generators draw from: people, places, things, and words made up on the spot."""

from __future__ import annotations

import random
from typing import Final

# fmt: off
PEOPLE: Final = (
    "Ada", "Amir", "Anja", "Bela", "Bruno", "Carla", "Chen", "Dana", "Diego", "Edith", "Elio", "Farah", "Felix",
    "Greta", "Hana", "Hugo", "Ines", "Ivan", "Jana", "Jonas", "Kaja", "Kofi", "Lara", "Leon", "Maja", "Marco",
    "Nadia", "Nils", "Olga", "Omar", "Paula", "Pavel", "Quinn", "Rosa", "Ruben", "Sara", "Sven", "Tara", "Theo",
    "Uma", "Viktor", "Wanda", "Yara", "Yusuf", "Zoe", "Zoran",
)
CITIES: Final = (
    "Arden", "Belmar", "Corvo", "Dalby", "Elgin", "Fermo", "Gavle", "Hobro", "Ilmen", "Jarva", "Korso", "Lumar",
    "Merano", "Norden", "Ostrava", "Pinto", "Quero", "Rieti", "Soria", "Torun", "Umbra", "Varde", "Wismar",
    "Yport", "Zadar",
)
THINGS: Final = (
    "anchor", "basket", "candle", "drill", "easel", "funnel", "gasket", "hammer", "inkwell", "jigsaw", "kettle",
    "ladder", "magnet", "needle", "oven", "pulley", "quilt", "ratchet", "shovel", "tripod", "umbrella", "valve",
    "wrench", "zipper",
)
TOPICS: Final = (
    "archive", "bridge", "canal", "depot", "engine", "foundry", "garden", "harbour", "institute", "journal",
    "kiln", "library", "market", "nursery", "observatory", "pavilion", "quarry", "reservoir", "station",
    "theatre", "viaduct", "warehouse", "yard",
)
# fmt: on
_ONSETS: Final = (
    "b",
    "d",
    "f",
    "g",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
    "br",
    "dr",
    "gr",
    "st",
    "tr",
)
_VOWELS: Final = ("a", "e", "i", "o", "u")
_CODAS: Final = ("", "l", "m", "n", "r", "s", "x")


def made_up(rng: random.Random, num_syllables: int = 2) -> str:
    """A word that means nothing, in lower case."""
    return "".join(
        rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(num_syllables)
    )


def made_up_words(rng: random.Random, num: int, num_syllables: int = 2) -> list[str]:
    """So many different ones."""
    words: dict[str, None] = {}
    while len(words) < num:
        words[made_up(rng, num_syllables)] = None
    return list(words)


def people(rng: random.Random, num: int) -> list[str]:
    """So many different names; beyond those that there are, made-up ones."""
    known = rng.sample(PEOPLE, min(num, len(PEOPLE)))
    return known + [name.capitalize() for name in made_up_words(rng, num - len(known), 3)]


def listed(names: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
