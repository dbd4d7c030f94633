"""Prompts about what everybody knows: capitals, kinds of things, days and months, colours, animals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from router.prompts_checks import Check, States

Question = tuple[str, Check, str]

# Three rows from the best known to the least known.
CAPITALS: Final = tuple(
    dict(pair.split("=") for pair in row.strip().split("; "))
    for row in (
        "France=Paris; Germany=Berlin; Italy=Rome; Spain=Madrid; Japan=Tokyo; China=Beijing; Russia=Moscow; "
        "Greece=Athens; Egypt=Cairo; Portugal=Lisbon; Ireland=Dublin; Austria=Vienna; Poland=Warsaw; Cuba=Havana",
        "Norway=Oslo; Sweden=Stockholm; Finland=Helsinki; Denmark=Copenhagen; Hungary=Budapest; Turkey=Ankara; "
        "Canada=Ottawa; Australia=Canberra; Kenya=Nairobi; Peru=Lima; Chile=Santiago; Thailand=Bangkok; Iran=Tehran; "
        "Belgium=Brussels",
        "Latvia=Riga; Estonia=Tallinn; Slovenia=Ljubljana; Uruguay=Montevideo; Ghana=Accra; Senegal=Dakar; "
        "Mongolia=Ulaanbaatar; Nepal=Kathmandu; Zambia=Lusaka; Uganda=Kampala; Bulgaria=Sofia; Jordan=Amman; "
        "Paraguay=Asunción; Laos=Vientiane",
    )
)
KINDS: Final = {
    "animal": ("dog", "horse", "rabbit", "tiger", "sheep", "whale", "eagle", "frog", "salmon", "beetle"),
    "fruit": ("apple", "banana", "cherry", "grape", "lemon", "mango", "peach", "pear", "plum", "fig"),
    "tool": ("hammer", "saw", "screwdriver", "wrench", "drill", "axe", "shovel", "rake", "chisel", "mallet"),
    "colour": ("red", "blue", "green", "yellow", "purple", "brown", "pink", "white", "black", "crimson"),
    "vehicle": ("car", "bus", "train", "bicycle", "truck", "ship", "tram", "motorcycle", "van", "ferry"),
    "instrument": ("piano", "guitar", "violin", "flute", "drum", "trumpet", "harp", "cello", "banjo", "oboe"),
}
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
YES_NO: Final = ("yes", "no")


def capitals(rng: np.random.Generator, level: int) -> Question:
    """The capital of a well known, a known, a little known country."""
    country = str(rng.choice(list(CAPITALS[level])))
    right = CAPITALS[level][country]
    asked = (f"What is the capital of {country}?", f"Name the capital city of {country}.")[rng.integers(2)]
    cities = tuple(city for row in CAPITALS for city in row.values())
    accepted: tuple[str, ...] = (right, "Asuncion") if right == "Asunción" else (right,)
    return asked, States(accepted, cities), right


def countries(rng: np.random.Generator, level: int) -> Question:
    """The country that a capital belongs to."""
    country, city = list(CAPITALS[level].items())[rng.integers(len(CAPITALS[level]))]
    names = tuple(name for row in CAPITALS for name in row)
    return (
        f"{city} is the capital of which country? Answer with the country only.",
        States(country, names),
        country,
    )


def membership(rng: np.random.Generator, level: int) -> Question:
    """Whether a thing is of a kind; at level 1 of either kind, at level 2 with a negation."""
    kinds = [str(kind) for kind in rng.choice(list(KINDS), 3, replace=False)]
    thing = str(rng.choice(KINDS[kinds[0]]))
    is_yes = bool(rng.integers(2))
    asked = kinds[0] if is_yes else kinds[1]
    told = f"{_a(asked)}" if level != 1 else f"{_a(asked)} or {_a(kinds[2])}"
    right = YES_NO[is_yes == (level == 2)]
    named = thing if kinds[0] == "colour" else _a(thing)
    sentence = f"Is it false that {named} is {told}?" if level == 2 else f"Is {named} {told}?"
    return f"{sentence} Answer yes or no.", States(right, YES_NO), right


def classification(rng: np.random.Generator, level: int) -> Question:
    """Which of two to four kinds a thing is."""
    kinds = [str(kind) for kind in rng.choice(list(KINDS), 2 + level, replace=False)]
    right = str(rng.choice(kinds))
    thing = str(rng.choice(KINDS[right]))
    listed = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    return f"{thing.capitalize()}: {listed}? Answer with one word.", States(right, tuple(kinds)), right


def odd_one_out(rng: np.random.Generator, level: int) -> Question:
    """The one of three to five things that is of another kind."""
    usual, other = (str(kind) for kind in rng.choice(list(KINDS), 2, replace=False))
    things = [str(thing) for thing in rng.choice(KINDS[usual], 2 + level, replace=False)]
    right = str(rng.choice(KINDS[other]))
    things.insert(int(rng.integers(len(things) + 1)), right)
    prompt = f"Which of these does not belong with the others: {', '.join(things)}? Answer with one word."
    return prompt, States(right, tuple(things)), right


def days(rng: np.random.Generator, level: int) -> Question:
    """The day after, the day before or two days later, and several days later."""
    today = int(rng.integers(7))
    shift, told = (
        ((1, "comes after {}"), (1, "follows {}")),
        ((-1, "comes before {}"), (2, "is two days after {}")),
        ((3, "is three days after {}"), (-2, "is two days before {}"), (10, "is ten days after {}")),
    )[level][rng.integers(2 + (level == 2))]
    right = DAYS[(today + shift) % 7]
    others = tuple(day for day in DAYS if day != DAYS[today])
    return f"Which day {told.format(DAYS[today])}? Answer with the day only.", States(right, others), right


def months(rng: np.random.Generator, level: int) -> Question:
    """The next month, the one before, and the one at a number of the year."""
    month = int(rng.integers(12))
    if level == 2:
        return (
            f"Which is month number {month + 1} of the year? Answer with its name.",
            States(MONTHS[month], MONTHS),
            MONTHS[month],
        )
    right = MONTHS[(month + (1, -1)[level]) % 12]
    others = tuple(name for name in MONTHS if name != MONTHS[month])
    asked = f"Which month comes {('after', 'before')[level]} {MONTHS[month]}? Answer with the month only."
    return asked, States(right, others), right


DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, int], Question]]] = {
    "capitals": capitals,
    "countries": countries,
    "membership": membership,
    "classification": classification,
    "odd_one_out": odd_one_out,
    "days": days,
    "months": months,
}


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
