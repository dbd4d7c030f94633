"""Prompts whose difficulty varies from one to the next and can be doubled: what a budget is held through. Pure."""

from __future__ import annotations

import random
from typing import Final

_TASKS: Final = (
    *("prove the theorem", "derive the equation", "solve the inequality", "compute the remainder"),
    *("simplify the polynomial", "evaluate the integral", "factor the matrix", "optimize the schedule"),
    *("debug the recursion", "implement the algorithm", "minimize the ratio", "deduce the constraint"),
)
_FILLING: Final = (
    "blue",
    "house",
    "river",
    "spoon",
    "morning",
    "bread",
    "window",
    "song",
    "garden",
    "letter",
)


def prompt_of(rng: random.Random, *, difficulty: float) -> str:
    """A prompt with `difficulty` hard tasks on average, each among idle words; with 0 there are only those."""
    words = [rng.choice(_FILLING) for _ in range(rng.randrange(3, 60))]
    num_tasks = min(len(_TASKS), int(rng.expovariate(1 / difficulty))) if difficulty else 0
    for task in rng.sample(_TASKS, num_tasks):
        words.insert(rng.randrange(len(words) + 1), task)
    return " ".join(words)
