"""Prompts that bring a short text with them: finding a field, JSON, true or false, who is taller, which came first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

import numpy as np

from router.prompts_checks import Check, JsonObject, Number, States

Question = tuple[str, Check, str]

NAMES: Final = ("Alice", "Bruno", "Carla", "Dennis", "Elena", "Frank", "Gina", "Hugo", "Irene", "Jonas")
CITIES: Final = ("Lisbon", "Oslo", "Vienna", "Dublin", "Prague", "Athens", "Boston", "Sydney")
JOBS: Final = ("baker", "nurse", "pilot", "teacher", "farmer", "lawyer", "singer", "plumber")
PETS: Final = ("cat", "dog", "parrot", "hamster", "turtle", "goldfish")
ORDERS: Final = (
    ("taller than", "tallest", "shortest"),
    ("older than", "oldest", "youngest"),
    ("faster than", "fastest", "slowest"),
)


def fields(rng: np.random.Generator, level: int) -> Question:
    """One fact about one of one to three people."""
    people = _people(rng, 1 + level)
    name, city, job, pet, age = people[rng.integers(len(people))]
    text = " ".join(
        f"{name} is {age} years old, lives in {city}, works as a {job} and has a {pet}."
        for name, city, job, pet, age in people
    )
    asked, right, choices = (
        (f"Where does {name} live?", city, CITIES),
        (f"What does {name} work as?", job, JOBS),
        (f"Which pet does {name} have?", pet, PETS),
        (f"How old is {name}?", str(age), ()),
    )[rng.integers(4)]
    check = States(right, choices) if choices else Number(age)
    return f"{text}\n{asked} Answer briefly.", check, right


def json_objects(rng: np.random.Generator, level: int) -> Question:
    """A sentence as a JSON object of one to three members."""
    name, city, job, _, age = _people(rng, 1)[0]
    names = ("name", "age", "city")[: 1 + level]
    members: dict[str, str | int] = {"name": name, "age": age, "city": city}
    wanted = {key: members[key] for key in names}
    listed = ", ".join(f'"{key}"' for key in names)
    text = f"{name}, {age}, is a {job} from {city}."
    prompt = f"{text}\nGive this as a JSON object with the key{'s' * (level > 0)} {listed}. Answer with the JSON only."
    shown = ", ".join(
        f'"{key}": ' + (f'"{value}"' if isinstance(value, str) else str(value))
        for key, value in wanted.items()
    )
    return prompt, JsonObject(wanted), f"{{{shown}}}"


def claims(rng: np.random.Generator, level: int) -> Question:
    """Whether a statement about a text is true: as it stands there, of one of two people, of one of three."""
    people = _people(rng, 1 + level)
    text = " ".join(f"{name} is a {job} in {city}." for name, city, job, _, _ in people)
    name, city, job, _, _ = people[rng.integers(len(people))]
    is_true = bool(rng.integers(2))
    other_city = _other(rng, [person[1] for person in people if person[1] != city] or CITIES, city)
    other_job = _other(rng, [person[2] for person in people if person[2] != job] or JOBS, job)
    claim = (
        f"{name} lives in {city if is_true else other_city}.",
        f"{name} is a {job if is_true else other_job}.",
    )[rng.integers(2)]
    right = "true" if is_true else "false"
    prompt = f"{text}\nTrue or false: {claim} Answer with one word."
    return prompt, States(right, ("true", "false")), right


def orders(rng: np.random.Generator, level: int) -> Question:
    """Who is the tallest, or the shortest, of two to four people who are compared in pairs."""
    than, most, least = ORDERS[rng.integers(len(ORDERS))]
    names = [str(name) for name in rng.choice(NAMES, 2 + level, replace=False)]
    facts = [f"{a} is {than} {b}." for a, b in pairwise(names)]
    rng.shuffle(facts)
    asks_most = bool(rng.integers(2))
    right = names[0] if asks_most else names[-1]
    prompt = f"{' '.join(facts)}\nWho is the {most if asks_most else least}? Answer with the name only."
    return prompt, States(right, tuple(names)), right


def places(rng: np.random.Generator, level: int) -> Question:
    """Where a thing is after it has been moved up to twice."""
    name, other = (str(word) for word in rng.choice(NAMES, 2, replace=False))
    rooms = ["kitchen", "garden", "garage", "bedroom", "cellar", "attic"]
    visited = [str(room) for room in rng.choice(rooms, 2 + level, replace=False)]
    thing = str(rng.choice(["ball", "key", "lamp", "bag", "map"]))
    sentences = [f"{name} puts the {thing} in the {visited[0]}.", f"{other} goes to the {visited[-1]}."]
    sentences += [f"{name} takes the {thing} to the {room}." for room in visited[1:-1]]
    prompt = f"{' '.join(sentences)}\nWhere is the {thing}? Answer with the place only."
    return prompt, States(visited[-2], tuple(rooms)), visited[-2]


DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, int], Question]]] = {
    "fields": fields,
    "json_objects": json_objects,
    "claims": claims,
    "orders": orders,
    "places": places,
}

Person = tuple[str, str, str, str, int]


def _people(rng: np.random.Generator, count: int) -> list[Person]:
    columns = [
        [str(word) for word in rng.choice(words, count, replace=False)]
        for words in (NAMES, CITIES, JOBS, PETS)
    ]
    ages = [int(age) for age in rng.choice(np.arange(18, 80), count, replace=False)]
    return list(zip(*columns, ages, strict=True))


def _other(rng: np.random.Generator, words: list[str] | tuple[str, ...], this: str) -> str:
    return str(rng.choice([word for word in words if word != this]))
