"""Copies of a prompt as somebody else might have sent it: with manners around it, or a word behind it.

A model that is fitted on a prompt and on copies of it learns what says nothing of the task. None of the phrases is one
that `router.robustness` tests with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from router.outcome_table import view_of
from router.request import RequestView

OPENINGS: Final = (
    "Hi there!",
    "Hey, good morning.",
    "Dear assistant,",
    "Greetings, and thanks for being here.",
    "I have got a question for you.",
    "Sorry to bother you again, but I am stuck on this one.",
    "Would you mind taking a look at this? I'd really appreciate it.",
    "Can you give me a hand here, please?",
    "My friend and I were talking about it and we could not agree.",
    "I need this for my work today.",
    "Please read carefully what I wrote down below and reply when you are ready.",
    "Here is my question.",
    "I would be grateful for your answer to what comes next.",
)
CLOSINGS: Final = (
    "Thank you very much!",
    "Thanks a lot for your time.",
    "Please and thank you.",
    "I really appreciate your help with it.",
    "Take care, and all the best to you and yours.",
    "Cheers!",
    "Many thanks, I owe you one.",
    "Looking forward to your reply. Kind regards, Sam",
    "Let me know what you think, no hurry.",
    "You're the best.",
    "That would help me a lot.",
    "Hope that makes sense, and sorry for the trouble.",
)
LATER_TURNS: Final = ("go on", "ok", "yes please", "go ahead, I am listening", "please do")
_GAPS: Final = ("\n\n", "\n\n", "\n", " ")


def _opened(prompt: str, generator: np.random.Generator) -> RequestView:
    return view_of(_some(OPENINGS, generator) + _one(_GAPS, generator) + prompt)


def _closed(prompt: str, generator: np.random.Generator) -> RequestView:
    return view_of(prompt + _one(_GAPS, generator) + _some(CLOSINGS, generator))


def _wrapped(prompt: str, generator: np.random.Generator) -> RequestView:
    opening, closing = _some(OPENINGS, generator), _some(CLOSINGS, generator)
    return view_of(opening + _one(_GAPS, generator) + prompt + _one(_GAPS, generator) + closing)


def _followed(prompt: str, generator: np.random.Generator) -> RequestView:
    return view_of(prompt, _one(LATER_TURNS, generator))


COPYINGS: Final[Mapping[str, Callable[[str, np.random.Generator], RequestView]]] = {
    "wrapped": _wrapped,
    "opened": _opened,
    "closed": _closed,
    "followed": _followed,
}
"""The ways of copying, in the order in which a prompt's copies take turns in them."""


def copies_of(prompt: str, num: int, generator: np.random.Generator) -> tuple[RequestView, ...]:
    """So many copies of `prompt`, each of another kind while there are kinds left."""
    ways = tuple(COPYINGS.values())
    return tuple(ways[number % len(ways)](prompt, generator) for number in range(num))


def _one(phrases: tuple[str, ...], generator: np.random.Generator) -> str:
    return phrases[int(generator.integers(len(phrases)))]


def _some(phrases: tuple[str, ...], generator: np.random.Generator) -> str:
    """One to three of the phrases."""
    chosen = generator.permutation(len(phrases))[: int(generator.integers(1, 4))]
    return " ".join(phrases[place] for place in chosen)
