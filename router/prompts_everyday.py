"""Prompts a child could answer: everyday knowledge, words in another language, what somebody bought and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from router.prompts_checks import Check, States

Question = tuple[str, Check, str]


def _rows(text: str) -> dict[str, str]:
    return dict(line.split("=") for line in text.strip().splitlines())


# Three tables from what everybody knows to what takes some schooling.
KNOWLEDGE: Final = (
    _rows("""
What colour is grass?=green
What colour is the sky on a clear day?=blue
What colour is snow?=white
Which animal barks?=dog
Which animal says meow?=cat
What do bees make?=honey
What do cows give us to drink?=milk
What falls from clouds and makes you wet?=rain
What do you call frozen water?=ice
Which star gives us light during the day?=sun
What do you wear on your feet inside shoes?=socks
What do you use to open a locked door?=key
"""),
    _rows("""
Which planet do we live on?=Earth
What is a baby dog called?=puppy
What is a baby cat called?=kitten
Which organ pumps blood through the body?=heart
Which season comes after winter?=spring
Which meal do people eat in the morning?=breakfast
What do caterpillars turn into?=butterfly
Which tool measures temperature?=thermometer
Which large animal has a trunk?=elephant
What is the tallest animal on land?=giraffe
Which metal do magnets attract best?=iron
What is the main language of Brazil?=Portuguese
"""),
    _rows("""
Which planet is known as the red planet?=Mars
Which is the largest planet of the solar system?=Jupiter
Which gas do plants take in from the air?=carbon dioxide
Who wrote Romeo and Juliet?=Shakespeare
Which is the largest ocean on Earth?=Pacific
Which organ cleans the blood and makes urine?=kidney
What is the hardest natural material?=diamond
Which metal is liquid at room temperature?=mercury
Who painted the Mona Lisa?=Leonardo
Which gas do we breathe in to live?=oxygen
Which force pulls things to the ground?=gravity
On which continent is Egypt?=Africa
"""),
)
FRENCH: Final = (
    "water=eau house=maison cat=chat dog=chien bread=pain book=livre red=rouge night=nuit day=jour milk=lait",
    "tree=arbre apple=pomme horse=cheval friend=ami sun=soleil moon=lune fish=poisson school=école white=blanc",
    "window=fenêtre winter=hiver church=église key=clé shoe=chaussure bird=oiseau star=étoile garden=jardin",
)
SPANISH: Final = (
    "water=agua house=casa cat=gato dog=perro bread=pan book=libro red=rojo night=noche day=día milk=leche",
    "tree=árbol apple=manzana horse=caballo friend=amigo sun=sol moon=luna fish=pez school=escuela white=blanco",
    "window=ventana winter=invierno church=iglesia key=llave shoe=zapato bird=pájaro star=estrella garden=jardín",
)
NAMES: Final = ("Maria", "Peter", "Laura", "Simon", "Julia", "Martin", "Sarah", "Oscar")
COLOURS: Final = ("red", "blue", "green", "yellow", "black", "white")
GOODS: Final = ("bicycle", "hat", "sofa", "bag", "car", "vase", "coat", "lamp")
TOWNS: Final = ("Rome", "Berlin", "Madrid", "Paris", "London", "Geneva")
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def knowledge(rng: np.random.Generator, level: int) -> Question:
    """Something everybody knows, most people know, those who went to school know."""
    asked, right = list(KNOWLEDGE[level].items())[rng.integers(len(KNOWLEDGE[level]))]
    answers = tuple(answer for table in KNOWLEDGE for answer in table.values())
    accepted = (
        (right, f"{right}s")
        if right in ("dog", "cat", "kidney", "elephant", "giraffe", "diamond")
        else (right,)
    )
    said = asked.casefold()
    others = tuple(answer for answer in answers if answer.casefold() not in said)
    ending = ("", " Answer with one word.", " Answer briefly.")[rng.integers(3)]
    return asked + ending, States(accepted, others), right


def translation(rng: np.random.Generator, level: int) -> Question:
    """A common, a less common, a rarer word in French or Spanish."""
    language, tables = (("French", FRENCH), ("Spanish", SPANISH))[rng.integers(2)]
    pairs = dict(pair.split("=") for pair in tables[level].split())
    word, right = list(pairs.items())[rng.integers(len(pairs))]
    choices = tuple(pair.split("=")[1] for table in tables for pair in table.split())
    asked = (
        f'What is the {language} word for "{word}"?',
        f'Translate "{word}" into {language}.',
        f'How do you say "{word}" in {language}?',
    )[rng.integers(3)]
    return asked, States(right, choices), right


def purchases(rng: np.random.Generator, level: int) -> Question:
    """Who bought what, of which colour, where and when: one purchase to three."""

    def some(words: tuple[str, ...]) -> list[str]:
        return [str(word) for word in rng.choice(words, 1 + level, replace=False)]

    bought = list(zip(some(NAMES), some(COLOURS), some(GOODS), some(TOWNS), some(DAYS), strict=True))
    text = " ".join(
        f"On {day} {name} bought a {colour} {good} in {town}." for name, colour, good, town, day in bought
    )
    name, colour, good, town, day = bought[rng.integers(len(bought))]
    asked, right, choices = (
        (f"What did {name} buy?", good, GOODS),
        (f"Which colour is the {good} that {name} bought?", colour, COLOURS),
        (f"In which city did {name} buy the {good}?", town, TOWNS),
        (f"On which day did {name} buy the {good}?", day, DAYS),
        (f"Who bought the {colour} {good}?", name, NAMES),
    )[rng.integers(5)]
    return f"{text}\n{asked}", States(right, choices), right


DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, int], Question]]] = {
    "knowledge": knowledge,
    "translation": translation,
    "purchases": purchases,
}
