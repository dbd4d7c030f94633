"""Reads final answers strictly, so that saying everything, or nothing, earns nothing.

A final answer is the last line that is not blank, without an `Answer:` before it and without markdown around it.
What it must be, it must be *entirely*: no reader here searches for a right answer inside other text, so neither an
echo of the task, nor a list of all candidates, nor an instruction to the judge contains one. A reader gives None for
what it cannot read, and an empty text can never be read.

    text = final_answer(transcript.answer)
    return judged(number(text) == 42)
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from fractions import Fraction
from typing import Final

from train.domains.base import Verdict
from train.transcript import JsonValue

MAX_ANSWER_CHARS: Final = 20_000
"""What is longer is not read: a reader's time is bounded whatever a policy writes."""
MAX_DIGITS: Final = 400
MAX_EXPONENT: Final = 400
"""Of ten. `1e999999999` would otherwise be expanded."""
MAX_DEPTH: Final = 40
"""Of brackets in JSON, far below the recursion limit of its reader."""

_LABEL: Final = re.compile(
    r"^(?P<mark>\*\*|__)?"
    r"(?:(?:the |my )?(?:final )?answer(?: is)?\s*[:=]|the (?:final )?answer is)"
    r"(?(mark)(?P=mark))\s*",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"(?P<sign>[-+]?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)?(?:\.(?P<part>\d+))?(?:[eE](?P<exponent>[-+]?\d{1,4}))?"
)
_RATIO: Final = re.compile(r"([-+]?\d+) ?/ ?(\d+)")
_LETTER: Final = re.compile(r"\(?([A-Za-z])[).:]?")
_FENCE: Final = re.compile(r"```[\w+-]*[ \t]*\n(.*?)\n?```", re.S)
_PAIRS: Final = (("**", "**"), ("`", "`"), ("$", "$"), ("\\boxed{", "}"), ("\\(", "\\)"), ("__", "__"))


def judged(is_right: bool, evidence: str = "") -> Verdict:
    """A verdict without partial credit."""
    return Verdict(score=float(is_right), passed=is_right, evidence=evidence)


def final_answer(text: str) -> str:
    """The last line that is not blank, bare of its label, of markdown around it and of one full stop; else empty."""
    if len(text) > MAX_ANSWER_CHARS:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _bare(lines[-1]) if lines else ""


def final_block(text: str) -> str:
    """An answer of several lines: the last fenced block, else what follows the last label, else the whole text."""
    if len(text) > MAX_ANSWER_CHARS:
        return ""
    fenced = _FENCE.findall(text)
    if fenced:
        return str(fenced[-1]).strip("\n")
    lines = text.strip().splitlines()
    labelled = [index for index, line in enumerate(lines) if _LABEL.match(line.strip())]
    if not labelled:
        return "\n".join(lines)
    first = _LABEL.sub("", lines[labelled[-1]].strip())
    return "\n".join([*([first] if first else []), *lines[labelled[-1] + 1 :]])


def number(text: str) -> Fraction | None:
    """An integer, a decimal, a ratio, or a decimal with an exponent, exactly; commas may part thousands.

    `1/3` is a third and `0.5` a half. Units, words, infinities and a ratio with a zero below are not numbers.
    """
    text = text.strip().replace("−", "-")
    if len(text) > MAX_DIGITS or not text.isascii():
        return None
    ratio = _RATIO.fullmatch(text)
    if ratio:
        return Fraction(int(ratio[1]), int(ratio[2])) if int(ratio[2]) else None
    found = _NUMBER.fullmatch(text)
    if not found or not (found["whole"] or found["part"]):
        return None
    exponent = int(found["exponent"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    part = found["part"] or ""
    digits = int((found["whole"] or "0").replace(",", "") + part)
    return (-1 if found["sign"] == "-" else 1) * Fraction(digits) * Fraction(10) ** (exponent - len(part))


def is_number(text: str, expected: Fraction | int, *, tolerance: Fraction | int = 0) -> bool:
    """Whether it is that number, or no further from it than `tolerance`, in the same unit."""
    value = number(text)
    return value is not None and abs(value - expected) <= tolerance


def integer(text: str) -> int | None:
    """A whole number; `4.0` and `8/2` are 4."""
    value = number(text)
    return value.numerator if value is not None and value.denominator == 1 else None


def word(text: str) -> str | None:
    """One word of letters, hyphens and apostrophes, in lower case."""
    return text.casefold() if re.fullmatch(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text) else None


def choice(text: str, choices: Collection[str]) -> str | None:
    """The one of `choices` that the text is, letter case and outer blanks apart."""
    wanted = " ".join(text.split()).casefold()
    return next((one for one in choices if wanted and one.casefold() == wanted), None)


def letter(text: str, letters: str = "ABCDE") -> str | None:
    """One of `letters`, written `B`, `(B)`, `B)` or `B.`, in upper case."""
    found = _LETTER.fullmatch(text)
    return found[1].upper() if found and found[1].upper() in letters.upper() else None


def items(text: str, separator: str = ",") -> tuple[str, ...] | None:
    """The parts of a list, bare of brackets around all and quotes around each; None where one is empty."""
    inner = text.strip()
    if inner[:1] + inner[-1:] in {"[]", "()", "{}"}:
        inner = inner[1:-1]
    parts = tuple(_unquoted(part.strip()) for part in inner.split(separator))
    return parts if all(parts) else None


def numbers(text: str, separator: str = ",") -> tuple[Fraction, ...] | None:
    """A list of numbers; with commas between them none may stand inside one."""
    parts = items(text, separator)
    values = [number(part) for part in parts or ()]
    return tuple(value for value in values if value is not None) if values and None not in values else None


def json_value(text: str) -> JsonValue | None:
    """The one JSON value that the final block is; None too for repeated members, NaN, or a deep nest.

    A text of only `null` reads as None like what cannot be read: no domain may take it for an answer.
    """
    block = final_block(text).strip()
    if _depth(block) > MAX_DEPTH:
        return None
    try:
        value: JsonValue = json.loads(
            block, object_pairs_hook=_members, parse_constant=_refused, parse_int=_whole
        )
    except ValueError:
        return None
    return value


def same(text: str, expected: str) -> bool:
    """Whether the two are equal, blanks at the ends and doubled ones apart; an empty expectation is never met."""
    return bool(expected.split()) and text.split() == expected.split()


def _bare(line: str) -> str:
    line = _LABEL.sub("", _unwrapped(line))
    line = _unwrapped(line)
    return _unwrapped(line[:-1].rstrip()) if line.endswith(".") and not line.endswith("..") else line


def _unwrapped(line: str) -> str:
    before = None
    while before != line:
        before, line = line, line.strip()
        for opening, closing in _PAIRS:
            inner = line[len(opening) : len(line) - len(closing)]
            if line.startswith(opening) and line.endswith(closing) and inner and closing not in inner:
                line = inner
    return line


def _unquoted(part: str) -> str:
    return part[1:-1].strip() if len(part) > 1 and part[0] == part[-1] and part[0] in "\"'`" else part


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    return deepest


def _members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is named twice")
    return members


def _refused(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is not JSON")


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("too many digits")
    return int(digits)
