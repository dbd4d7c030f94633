"""What can be read off a request in well under a millisecond: counts that say something about how hard it is.

Every feature is at least 0, and more of it never means an easier request. They are read from all user turns,
since the last one may say no more than "go on", without regard to case and to how much white space stands
between words. Of a long text only its two ends are read, so that time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from router.request import RequestView

STRUCTURE_VERSION = "structure-3"
"""Changes with any change to what a feature means."""

MAX_READ_CHARS = 2000
"""Of a longer text, the first and the last half of this many characters are read."""


def _vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


REASONING = _vocabulary(
    """
    prove proof derive derivation deduce infer solve compute calculate evaluate determine simplify
    factor integrate integral differentiate derivative equation equations theorem lemma inequality
    probability expected permutations combinations polynomial matrix eigenvalue eigenvalues modulo
    remainder prime divisible geometry triangle optimise optimize minimise minimize maximise maximize
    implement refactor debug algorithm complexity recursive recursion concurrency concurrent thread
    deadlock invariant asymptotic schema migrate regex compiler proofs puzzle constraint constraints
    schedule strategy counterexample hypothesis percent ratio average total
    """
)
"""Words of tasks that take several exact steps."""

EXPLAINING = _vocabulary(
    """
    explain compare contrast analyse analyze discuss summarise summarize translate rewrite critique
    review why how design plan write draft describe argue justify
    """
)
"""Words of tasks that take care rather than exactness."""

CONSTRAINING = _vocabulary(
    """
    must exactly only without unless except least most each every neither both never always ensure
    respectively otherwise
    """
)
"""Words that narrow what a right answer is."""

SEQUENCING = _vocabulary("first second third then next finally afterwards step steps")
LONG_FORMS = _vocabulary(
    """
    essay story article report chapter letter blog poem tutorial code program function script class
    implement tests documentation detailed thorough table list
    """
)
SHORT_FORMS = (
    "one word",
    "single word",
    "yes or no",
    "only the answer",
    "just the answer",
    "only the number",
    "one sentence",
    "answer with a letter",
)

_WORD = re.compile(r"[^\W\d_]+")
# ASCII text is read by tables, which takes a tenth of the time: letters stay and all else separates words.
_LETTERS = bytes(code if chr(code).isalpha() and code < 128 else 32 for code in range(256))
_NO_DIGITS = bytes(code for code in range(256) if not chr(code).isdigit() or code > 127)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Runs of white space are bounded or end at the line, so that no text makes a pattern look at it twice. Each pattern
# begins with a character or one of a set, so that `re` skips to where it can match.
_MATHS_SIGN = re.compile(r"[=^∑∫√≠≤≥×÷±∞∂∈∀∃]")
_MATHS_COMMAND = re.compile(r"\\[a-z]+")
_ARITHMETIC = re.compile(r"\d ?[+*/<>-] ?[\dx(]")
CODE_WORDS = _vocabulary("def class import from func fn public private return select #include")
_STATEMENT_BEGINS = re.compile(rf"\n[^\S\n]*(?:{'|'.join(sorted(CODE_WORDS))})(?![^\s])")
_STATEMENT_ENDS = re.compile(r"[{};][^\S\n]*(?=\n)")
_ITEM = re.compile(r"\n[ \t]*(?:[-*•]|\(?[0-9a-z][.)])[ \t]")
_LATIN_END = "\u024f"


@dataclass(frozen=True, slots=True)
class Reading:
    """A request's text, read once: every feature looks at this."""

    text: str
    words: list[str]
    vocabulary: frozenset[str]
    has_digits: bool


def read(turns: Sequence[str]) -> Reading:
    """The words of these turns."""
    text = bounded(turns)
    if text.isascii():
        raw = text.encode("ascii")
        words = raw.translate(_LETTERS).decode("ascii").split()
        return Reading(text, words, frozenset(words), bool(raw.translate(None, _NO_DIGITS)))
    words = _WORD.findall(text)
    return Reading(text, words, frozenset(words), has_digits=True)


def structure(view: RequestView, reading: Reading | None = None) -> dict[str, float]:
    """The structural features of `view` by name, always the same names in the same order.

    `reading` is that of its turns, where it has been read already.
    """
    reading = reading or read(view.turns)
    text, words, vocabulary = reading.text, reading.words, reading.vocabulary
    return {
        "length": log2(max(1.0, (len(words) + view.num_chars / 64) / 12)),
        "reasoning": float(len(vocabulary & REASONING)),
        "explaining": float(len(vocabulary & EXPLAINING)),
        "constraints": log2(1 + len(vocabulary & CONSTRAINING)),
        "steps": log2(1 + len(vocabulary & SEQUENCING) + len(_ITEM.findall(f"\n{text}"))),
        "numbers": log2(max(1, len(set(_NUMBER.findall(text))) if reading.has_digits else 0)),
        "maths": log2(max(1, _num_maths_marks(reading))),
        "code": log2(1 + _num_code_marks(text)),
        "tables": log2(1 + _num_table_lines(text)),
        "questions": log2(max(1, text.count("?"))),
        "other_script": _other_script(text, words),
        "turns": log2(max(1, view.num_turns)),
        "tools": log2(1 + view.num_tools),
        "schema": float(view.needs_schema),
    }


def asks_for_length(view: RequestView, reading: Reading | None = None) -> float:
    """How long an answer the words ask for: -1 for a word or a sentence, 0 for nothing said, 1 for a long
    form. `reading` is that of the last turn."""
    reading = reading or read(view.turns[-1:])
    if any(form in reading.text for form in SHORT_FORMS):
        return -1.0
    return float(not LONG_FORMS.isdisjoint(reading.vocabulary))


def _num_maths_marks(reading: Reading) -> int:
    text = reading.text
    num_signs = text.count("=") + text.count("^") if text.isascii() else len(_MATHS_SIGN.findall(text))
    num_sums = len(_ARITHMETIC.findall(text)) if reading.has_digits else 0
    return num_signs + num_sums + len(_MATHS_COMMAND.findall(text))


def _num_code_marks(text: str) -> int:
    """Fences, arrows and empty calls, and lines that end or begin as a statement does."""
    lined = f"\n{text}\n"
    num_statements = len(_STATEMENT_BEGINS.findall(lined)) + len(_STATEMENT_ENDS.findall(lined))
    num_calls = sum(before[-1:].isalnum() or before.endswith("_") for before in text.split("()")[:-1])
    return text.count("```") + text.count("=>") + num_calls + num_statements


def _num_table_lines(text: str) -> int:
    if "|" not in text and "\t" not in text:
        return 0
    return sum(1 for line in text.split("\n") if line.count("|") > 1 or line.count("\t") > 1)


def _other_script(text: str, words: Sequence[str]) -> float:
    """The share of words beyond Latin script."""
    if text.isascii():
        return 0.0
    return sum(1 for word in words if word[0] > _LATIN_END) / max(1, len(words))


def bounded(turns: Sequence[str]) -> str:
    """The turns as one casefolded text, of which both ends are kept where it is long."""
    text = "\n".join(turns)
    if len(text) > MAX_READ_CHARS:
        half = MAX_READ_CHARS // 2
        text = f"{text[:half]}\n{text[-half:]}"
    return text.casefold()
