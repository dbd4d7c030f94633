"""Prompts about English: opposites, plurals, past tenses, sentiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from router.prompts_checks import Check, States

Question = tuple[str, Check, str]
Table = Mapping[str, str]


def _table(rows: str) -> tuple[Table, ...]:
    return tuple(dict(pair.split("/") for pair in row.split()) for row in rows.split("|"))


# Each table has three rows from the commonest to the rarest.
OPPOSITES: Final = _table(
    """
    hot/cold big/small up/down day/night happy/sad fast/slow open/closed light/dark hard/soft left/right
    early/late full/empty
    |
    high/low wet/dry rich/poor near/far strong/weak old/young clean/dirty loud/quiet thick/thin first/last
    push/pull buy/sell
    |
    ancient/modern expand/contract generous/selfish arrive/depart victory/defeat rough/smooth scarce/abundant
    guilty/innocent
    """
)
OTHER_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "small": ("small", "little", "tiny"),
    "closed": ("closed", "close", "shut"),
    "sad": ("sad", "unhappy"),
    "dark": ("dark", "heavy"),
    "soft": ("soft", "easy"),
    "quiet": ("quiet", "silent", "soft"),
    "young": ("young", "new"),
    "far": ("far", "distant"),
    "modern": ("modern", "contemporary", "new", "recent"),
    "contract": ("contract", "shrink", "reduce"),
    "selfish": ("selfish", "greedy", "stingy", "miserly", "mean"),
    "depart": ("depart", "leave"),
    "abundant": ("abundant", "plentiful", "ample", "common"),
    "defeat": ("defeat", "loss"),
}
PLURALS: Final = _table(
    """
    cat/cats dog/dogs book/books car/cars tree/trees house/houses apple/apples girl/girls table/tables
    cup/cups hat/hats
    |
    box/boxes baby/babies city/cities bus/buses dish/dishes knife/knives leaf/leaves wolf/wolves story/stories
    potato/potatoes
    |
    child/children man/men foot/feet tooth/teeth mouse/mice goose/geese person/people ox/oxen cactus/cacti
    crisis/crises
    """
)
PASTS: Final = _table(
    """
    walk/walked play/played look/looked jump/jumped call/called help/helped open/opened start/started
    wait/waited ask/asked
    |
    stop/stopped try/tried go/went see/saw eat/ate make/made run/ran come/came give/gave write/wrote take/took
    carry/carried
    |
    bring/brought teach/taught seek/sought swim/swam freeze/froze choose/chose weave/wove fling/flung
    forsake/forsook slay/slew
    """
)

SUBJECTS: Final = ("film", "book", "hotel", "meal", "concert", "trip", "teacher", "phone")
POSITIVE: Final = (
    ("I loved the {}.", "The {} was great!", "What a wonderful {}!", "The {} was excellent."),
    (
        "I would recommend the {} to anyone.",
        "The {} was better than I hoped.",
        "I can hardly wait for another {} like it.",
    ),
    (
        "I can find no fault with the {}.",
        "The {} was anything but dull.",
        "I expected a bad {} and was wrong.",
    ),
)
NEGATIVE: Final = (
    ("I hated the {}.", "The {} was terrible!", "What an awful {}!", "The {} was very bad."),
    (
        "I want my money back for the {}.",
        "The {} was worse than I feared.",
        "Nobody should have to bear the {}.",
    ),
    (
        "The {} left a lot to be desired.",
        "The {} was anything but good.",
        "I hoped for a great {} and was wrong.",
    ),
)
FEELINGS: Final = ("positive", "negative")


def opposites(rng: np.random.Generator, level: int) -> Question:
    """The opposite of a word."""
    word, right = _entry(rng, OPPOSITES[level])
    asked = (f'What is the opposite of "{word}"?', f'Give the antonym of "{word}".')[rng.integers(2)]
    listed = {*(word for row in OPPOSITES for pair in row.items() for word in pair)} - {word}
    accepted = OTHER_FORMS.get(right, (right,))
    return f"{asked} Answer with one word.", States(accepted, tuple(sorted(listed))), right


def plurals(rng: np.random.Generator, level: int) -> Question:
    """The plural of a regular, a less regular, an irregular noun."""
    noun, right = _entry(rng, PLURALS[level])
    return _form(f'What is the plural of "{noun}"? Answer with one word.', right, PLURALS)


def pasts(rng: np.random.Generator, level: int) -> Question:
    """The past tense of a regular, a common, a rare verb."""
    verb, right = _entry(rng, PASTS[level])
    return _form(f'What is the past tense of "{verb}"? Answer with one word.', right, PASTS)


def sentiment(rng: np.random.Generator, level: int) -> Question:
    """Whether a sentence is meant well: said plainly, in other words, by way of its contrary."""
    is_negative = int(rng.integers(2))
    sentences = (POSITIVE, NEGATIVE)[is_negative][level]
    sentence = sentences[rng.integers(len(sentences))].format(SUBJECTS[rng.integers(len(SUBJECTS))])
    order = ("positive or negative", "negative or positive")[rng.integers(2)]
    right = FEELINGS[is_negative]
    return f'Is this sentence {order}? "{sentence}" Answer with one word.', States(right, FEELINGS), right


DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, int], Question]]] = {
    "opposites": opposites,
    "plurals": plurals,
    "pasts": pasts,
    "sentiment": sentiment,
}


def _entry(rng: np.random.Generator, table: Table) -> tuple[str, str]:
    return list(table.items())[rng.integers(len(table))]


def _form(prompt: str, right: str, tables: tuple[Table, ...]) -> Question:
    return prompt, States(right, tuple(form for table in tables for form in table.values())), right
