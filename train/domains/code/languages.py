"""Sets of texts that a regular expression can tell: in words, as a pattern, and as a draw; a level is harder to say."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Language:
    """A set of texts."""

    words: str
    pattern: str
    alphabet: str
    """What near misses are made of."""
    drawn: Callable[[random.Random], str]
    """A text in it."""


def _letters(rng: random.Random, least: int, most: int, alphabet: str = "abcdefghijklmnopqrstuvwxyz") -> str:
    return "".join(rng.choices(alphabet, k=rng.randint(least, most)))


def _digits(rng: random.Random, least: int, most: int | None = None) -> str:
    return _letters(rng, least, most or least, "0123456789")


def _fixed(rng: random.Random) -> Language:
    n, m = rng.randint(2, 6), rng.randint(1, 4)
    mark = rng.choice("-_:#@/")
    return rng.choice(
        (
            Language(f"exactly {n} digits", rf"[0-9]{{{n}}}", "0123456789a", lambda r: _digits(r, n)),
            Language(
                f"at least {n} lower-case letters and nothing else",
                rf"[a-z]{{{n},}}",
                "abcxyzA1",
                lambda r: _letters(r, n, n + 5),
            ),
            Language(
                f"{n} digits, then {mark!r}, then {m} lower-case letters",
                rf"[0-9]{{{n}}}{mark}[a-z]{{{m}}}",
                f"0129ab{mark}",
                lambda r: _digits(r, n) + mark + _letters(r, m, m),
            ),
        )
    )


def _shaped(rng: random.Random) -> Language:
    n, m = rng.randint(1, 3), rng.randint(4, 7)
    mark, sign = rng.choice("-_:/"), rng.choice("#@%&")
    return rng.choice(
        (
            Language(
                f"{sign!r} and then {n} to {m} digits or letters from a to f",
                rf"{sign}[0-9a-f]{{{n},{m}}}",
                f"{sign}09afgz",
                lambda r: sign + _letters(r, n, m, "0123456789abcdef"),
            ),
            Language(
                f"groups of exactly {n} digits with {mark!r} between them, at least two groups",
                rf"[0-9]{{{n}}}({mark}[0-9]{{{n}}})+",
                f"019{mark}",
                lambda r: mark.join(_digits(r, n) for _ in range(r.randint(2, 4))),
            ),
            Language(
                f"a letter, then any number of letters, digits and {mark!r} (letters are lower case)",
                rf"[a-z][a-z0-9{mark}]*",
                f"abz09{mark}A",
                lambda r: _letters(r, 1, 1) + _letters(r, 0, 6, f"abcxyz019{mark}"),
            ),
        )
    )


def _optional(rng: random.Random) -> Language:
    n, mark, ending = rng.randint(1, 3), rng.choice(",;|"), rng.choice(("kg", "cm", "px", "ms"))
    escaped = re.escape(mark)
    return rng.choice(
        (
            Language(
                f"a whole number with an optional minus, "
                f"and if there is a point, exactly {n} digits behind it",
                rf"-?[0-9]+(\.[0-9]{{{n}}})?",
                "-.019",
                lambda r: r.choice(("-", "")) + _digits(r, 1, 4) + r.choice(("", "." + _digits(r, n))),
            ),
            Language(
                f"words of lower-case letters with a single {mark!r} between them",
                rf"[a-z]+({escaped}[a-z]+)*",
                f"abz{mark}",
                lambda r: mark.join(_letters(r, 1, 4) for _ in range(r.randint(1, 4))),
            ),
            Language(
                f"a number of 1 to {n + 1} digits without leading zero, and {ending!r} behind it",
                rf"[1-9][0-9]{{0,{n}}}{ending}",
                f"0129{ending}",
                lambda r: r.choice("123456789") + _digits(r, 0, n) + ending,
            ),
        )
    )


def _regular(rng: random.Random) -> Language:
    a, b = rng.sample("abcdxy01", 2)
    n = rng.randint(2, 3)
    other = rf"[{a}{b}]"
    return rng.choice(
        (
            Language(
                f"texts of {a!r} and {b!r} (also the empty one) "
                f"in which the number of {a!r} is divisible by {n}",
                rf"(({b}*{a}){{{n}}})*{b}*",
                a + b,
                lambda r: _divisible(r, a, b, n),
            ),
            Language(
                f"texts of {a!r} and {b!r} "
                f"that do not have {n} or more {a!r} in a row (the empty text is one)",
                rf"(?!.*{a}{{{n}}}){other}*",
                a + b,
                lambda r: _no_run(r, a, b, n),
            ),
            Language(
                "times of day from 00:00 to 23:59",
                r"([01][0-9]|2[0-3]):[0-5][0-9]",
                "0123456789:",
                lambda r: f"{r.randrange(24):02}:{r.randrange(60):02}",
            ),
            Language(
                "numbers from 0 to 255 without leading zeros",
                r"25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]",
                "0123456789",
                lambda r: str(r.choice((r.randrange(256), r.randrange(200, 256)))),
            ),
            Language(
                f"texts of {a!r} and {b!r} that begin and end with the same letter (one letter is enough)",
                rf"{a}({other}*{a})?|{b}({other}*{b})?",
                a + b,
                lambda r: _framed(r, a, b),
            ),
        )
    )


def _divisible(rng: random.Random, a: str, b: str, n: int) -> str:
    letters = [a] * (n * rng.randint(0, 3)) + [b] * rng.randint(0, 4)
    rng.shuffle(letters)
    return "".join(letters)


def _no_run(rng: random.Random, a: str, b: str, n: int) -> str:
    return b.join(a * rng.randrange(n) for _ in range(rng.randint(1, 5)))


def _framed(rng: random.Random, a: str, b: str) -> str:
    edge = rng.choice((a, b))
    return rng.choice((edge, edge + _letters(rng, 0, 5, a + b) + edge))


LANGUAGES: Final[tuple[Callable[[random.Random], Language], ...]] = (_fixed, _shaped, _optional, _regular)
"""By level."""
