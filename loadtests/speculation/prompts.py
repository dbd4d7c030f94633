"""Prompts by domain: texts to be copied, changed or reformatted, prose, and those of the router. Pure: by a seed.

Look-ups pay where the answer repeats the prompt, so such prompts are among them: `copy` (a text word for word), `edit`
(the same with one word replaced), `reformat` (rows of a table as JSON). `prose` repeats nothing of what was asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from router.prompts import DOMAINS as ROUTER_DOMAINS
from router.prompts import prompt_set

_PLACES: Final = (
    "mill",
    "harbour",
    "market",
    "chapel",
    "quarry",
    "orchard",
    "station",
    "bridge",
    "library",
    "inn",
)
_PEOPLE: Final = (
    "baker",
    "ferryman",
    "teacher",
    "shepherd",
    "smith",
    "doctor",
    "gardener",
    "clerk",
    "miller",
    "painter",
)
_THINGS: Final = (
    "lantern",
    "basket",
    "ledger",
    "ladder",
    "kettle",
    "saddle",
    "barrel",
    "violin",
    "blanket",
    "compass",
)
_DEEDS: Final = (
    "carried",
    "repaired",
    "sold",
    "hid",
    "painted",
    "borrowed",
    "found",
    "lost",
    "weighed",
    "polished",
)
_TIMES: Final = ("At dawn", "Before noon", "In the evening", "Late at night", "On Sunday", "After the storm")
_TOPICS: Final = (
    "why the sky is blue", "how bread rises", "what a lighthouse is for", "why leaves fall in autumn",
    "how a bicycle stays upright", "what makes a good neighbour", "why the sea is salty", "how glass is made",
    "what a glacier does to a valley", "why people keep diaries", "how bees find their way", "what a bank does",
)  # fmt: skip
_FORMS: Final = (
    "Explain in a few sentences {}.",
    "Write a short letter to a child about {}.",
    "Tell a story about {}.",
)
_NUM_SENTENCES: Final = 5
_NUM_ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked, and what kind of question it is."""

    domain: str
    text: str


def prompts_of(domains: Sequence[str], per_domain: int, *, seed: int) -> list[Prompt]:
    """So many different prompts of each domain, or as many as it has.

    Raises:
        ValueError: there is no such domain; says which there are.
    """
    if unknown := [each for each in domains if each not in OWN_DOMAINS and each not in ROUTER_DOMAINS]:
        known = ", ".join((*OWN_DOMAINS, *ROUTER_DOMAINS))
        raise ValueError(f"there is no domain {unknown[0]!r}; there are {known}")
    return [Prompt(domain, text) for domain in domains for text in _texts(domain, per_domain, seed)]


def _texts(domain: str, num: int, seed: int) -> list[str]:
    if domain not in OWN_DOMAINS:
        return [item.prompt for item in prompt_set(num, seed=seed, domains=[domain])]
    rng = random.Random(f"{domain} {seed}")
    found: dict[str, None] = {}
    for _ in range(20 * num):
        if len(found) < num:
            found[OWN_DOMAINS[domain](rng)] = None
    return list(found)


def _copy(rng: random.Random) -> str:
    return f"Repeat the following text exactly, word for word:\n\n{_text(rng)}"


def _edit(rng: random.Random) -> str:
    text = _text(rng)
    old = rng.choice([word for word in (*_PEOPLE, *_PLACES) if word in text])
    new = rng.choice([word for word in (*_PEOPLE, *_PLACES) if word not in text])
    return f"Write this text again, with the word {old!r} replaced by {new!r}:\n\n{text}"


def _reformat(rng: random.Random) -> str:
    rows = [
        f"{rng.choice(_PEOPLE)}, {rng.choice(_PLACES)}, {rng.choice(_THINGS)}, {rng.randrange(2, 90)}"
        for _ in range(_NUM_ROWS)
    ]
    return (
        "Write these rows as a JSON list of objects with the keys person, place, thing and price:\n\n"
        + "\n".join(rows)
    )


def _prose(rng: random.Random) -> str:
    return rng.choice(_FORMS).format(rng.choice(_TOPICS))


def _text(rng: random.Random) -> str:
    """No word of a list comes twice: a look-up has to be right about the text, not lucky."""
    words = zip(
        *(rng.sample(each, _NUM_SENTENCES) for each in (_TIMES, _PEOPLE, _DEEDS, _THINGS, _PLACES)),
        strict=True,
    )
    return " ".join(
        f"{time} the {person} {deed} a {thing} near the {place}."
        for time, person, deed, thing, place in words
    )


OWN_DOMAINS: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "copy": _copy,
    "edit": _edit,
    "reformat": _reformat,
    "prose": _prose,
}
