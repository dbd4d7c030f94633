"""Steps that functions are composed of: each in words and as an expression on `x`, which is its only truth.

A step takes what the one before it gave. Expressions are pure, end soon on any input that is drawn here, and are safe
to mutate: none has a loop without a bound.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from train.transcript import JsonValue


class Kind(StrEnum):
    """What goes in and comes out."""

    LIST = "list"
    TEXT = "text"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `{k}` stands for a number or a letter that is drawn."""

    words: str
    expression: str
    draws: tuple[int | str, ...] = ("",)
    """What `{k}` may be."""


LIST_STEPS: Final = (
    Step("keep only the even numbers", "[v for v in x if v % 2 == 0]"),
    Step("keep only the odd numbers", "[v for v in x if v % 2 == 1]"),
    Step("keep only the numbers greater than {k}", "[v for v in x if v > {k}]", (-5, -2, 0, 1, 3, 5)),
    Step("keep only the numbers less than {k}", "[v for v in x if v < {k}]", (-2, 0, 2, 4, 6, 9)),
    Step("remove every number that is divisible by {k}", "[v for v in x if v % {k} != 0]", (3, 4, 5)),
    Step("add {k} to every number", "[v + {k} for v in x]", (1, 2, 3, 5, 7, 10)),
    Step("multiply every number by {k}", "[v * {k} for v in x]", (-1, 2, 3, 4, 5)),
    Step("square every number", "[v * v for v in x]"),
    Step("replace every number by its absolute value", "[abs(v) for v in x]"),
    Step("replace every number by its remainder modulo {k}", "[v % {k} for v in x]", (3, 4, 5, 7, 10)),
    Step("reverse the order", "x[::-1]"),
    Step("sort in ascending order", "sorted(x)"),
    Step("sort in descending order", "sorted(x, reverse=True)"),
    Step("remove repeated numbers, keeping the first of each", "list(dict.fromkeys(x))"),
    Step("take every {k}. number, beginning with the first", "x[::{k}]", (2, 3)),
    Step("drop the first {k} numbers", "x[{k}:]", (1, 2, 3)),
    Step("keep only the last {k} numbers", "x[-{k}:]", (2, 3, 4)),
    Step("move the first {k} numbers to the end", "x[{k}:] + x[:{k}]", (1, 2, 3)),
    Step(
        "replace every number by the sum of all numbers up to and with it",
        "[sum(x[: i + 1]) for i in range(len(x))]",
    ),
    Step(
        "replace the list by the differences of each number and the one before it",
        "[b - a for a, b in zip(x, x[1:])]",
    ),
    Step("add its position, counted from 0, to every number", "[v + i for i, v in enumerate(x)]"),
    Step("replace the list by the sums of each number and the next", "[a + b for a, b in zip(x, x[1:])]"),
)
LIST_ENDS: Final = (
    Step("return the sum", "sum(x)"),
    Step("return how many there are", "len(x)"),
    Step("return the largest, or {k} if there is none", "max(x, default={k})", (0, -1)),
    Step("return the smallest, or {k} if there is none", "min(x, default={k})", (0, -1)),
    Step("return how many are greater than {k}", "sum(1 for v in x if v > {k})", (0, 2, 5)),
)
TEXT_STEPS: Final = (
    Step("reverse it", "x[::-1]"),
    Step("make it upper case", "x.upper()"),
    Step("remove all vowels (aeiou)", '"".join(c for c in x if c not in "aeiou")'),
    Step("remove all spaces", 'x.replace(" ", "")'),
    Step("replace every {k!r} by '-'", 'x.replace({k!r}, "-")', ("a", "e", "i", "o", "s", "t")),
    Step("remove every {k!r}", 'x.replace({k!r}, "")', ("a", "e", "n", "o", "s", "t")),
    Step("reverse the order of its words", '" ".join(x.split()[::-1])'),
    Step("sort its words alphabetically", '" ".join(sorted(x.split()))'),
    Step("reverse every word, leaving the words in their order", '" ".join(w[::-1] for w in x.split())'),
    Step("keep only the first letter of every word, without spaces", '"".join(w[0] for w in x.split())'),
    Step(
        "keep only the words of more than {k} letters",
        '" ".join(w for w in x.split() if len(w) > {k})',
        (2, 3, 4),
    ),
    Step(
        "make the first letter of every word upper case", '" ".join(w[:1].upper() + w[1:] for w in x.split())'
    ),
    Step("double every letter", '"".join(c * 2 if c.isalpha() else c for c in x)'),
    Step("keep only the first occurrence of every character", '"".join(dict.fromkeys(x))'),
    Step("sort its characters", '"".join(sorted(x))'),
    Step("take every {k}. character, beginning with the first", "x[::{k}]", (2, 3)),
    Step("drop the first {k} characters", "x[{k}:]", (1, 2, 3)),
    Step("put {k!r} before it and after it", "{k!r} + x + {k!r}", ("*", "#", "<>")),
    Step("join its words with {k!r}", "{k!r}.join(x.split())", ("-", "_", "+")),
)
TEXT_ENDS: Final = (
    Step("return its length", "len(x)"),
    Step("return how many words it has", "len(x.split())"),
    Step("return how many vowels (aeiou) it has", 'sum(1 for c in x if c in "aeiou")'),
    Step("return how many different characters it has", "len(set(x))"),
    Step("return the length of its longest word, or 0", "max((len(w) for w in x.split()), default=0)"),
)
NUMBER_STEPS: Final = (
    Step("add {k}", "x + {k}", (1, 2, 3, 5, 7, 11, 20)),
    Step("subtract {k}", "x - {k}", (1, 2, 3, 5, 9, 12)),
    Step("multiply by {k}", "x * {k}", (2, 3, 4, 5, 7, 10)),
    Step("square it", "x * x"),
    Step("take its absolute value", "abs(x)"),
    Step("take the remainder modulo {k}", "x % {k}", (7, 10, 13, 17, 100)),
    Step("divide by {k}, rounding down", "x // {k}", (2, 3, 4, 5)),
    Step("take the sum of its decimal digits, without the sign", "sum(int(d) for d in str(abs(x)))"),
    Step("reverse its decimal digits, without the sign", "int(str(abs(x))[::-1])"),
    Step("count the ones in binary, without the sign", 'bin(abs(x)).count("1")'),
    Step("take the largest of its decimal digits", "max(int(d) for d in str(abs(x)))"),
    Step("take the distance to {k}", "abs(x - {k})", (10, 25, 50, 100)),
    Step("halve it if it is even, else add {k}", "x // 2 if x % 2 == 0 else x + {k}", (1, 3, 5)),
    Step("triple it if it is less than {k}", "x * 3 if x < {k} else x", (20, 50, 100)),
    Step("take the larger of it and {k}", "max(x, {k})", (5, 10, 30)),
    Step("take the smaller of it and {k}", "min(x, {k})", (50, 80, 120)),
)
NUMBER_ENDS: Final = (
    Step("return whether it is even", "x % 2 == 0"),
    Step("return whether it is greater than {k}", "x > {k}", (10, 30, 60)),
    Step("return it as text", "str(x)"),
)
STEPS: Final[Mapping[Kind, tuple[Step, ...]]] = {
    Kind.LIST: LIST_STEPS,
    Kind.TEXT: TEXT_STEPS,
    Kind.NUMBER: NUMBER_STEPS,
}
ENDS: Final[Mapping[Kind, tuple[Step, ...]]] = {
    Kind.LIST: LIST_ENDS,
    Kind.TEXT: TEXT_ENDS,
    Kind.NUMBER: NUMBER_ENDS,
}
"""Last steps, which give something of another kind."""
_WORDS: Final = (
    "apple", "tree", "stone", "river", "cloud", "table", "seven", "orange", "paint", "music", "ant", "bee", "sea",
    "letter", "banana", "noon", "area", "iron", "east", "moss", "kettle", "pepper", "lantern", "onion", "of", "the",
)  # fmt: skip


def _list(rng: random.Random) -> JsonValue:
    return [rng.randint(-9, 20) for _ in range(rng.randint(4, 9))]


def _text(rng: random.Random) -> JsonValue:
    return " ".join(rng.choices(_WORDS, k=rng.randint(2, 6)))


def _number(rng: random.Random) -> JsonValue:
    return rng.choice((rng.randint(0, 12), rng.randint(13, 99), rng.randint(100, 400)))


INPUTS: Final[Mapping[Kind, Callable[[random.Random], JsonValue]]] = {
    Kind.LIST: _list,
    Kind.TEXT: _text,
    Kind.NUMBER: _number,
}
EDGES: Final[Mapping[Kind, tuple[JsonValue, ...]]] = {
    Kind.LIST: ([], [4], [0, 0, 0], [-3, 8]),
    Kind.TEXT: ("", "a", "noon"),
    Kind.NUMBER: (0, 1, 10),
}
"""Inputs at the edge, hidden like the others."""
NOUNS: Final[Mapping[Kind, str]] = {
    Kind.LIST: "a list of integers",
    Kind.TEXT: "a string (its words are what split() gives, joined again by single spaces)",
    Kind.NUMBER: "an integer",
}
