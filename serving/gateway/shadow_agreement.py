"""Whether one answer says what another one says, where a rule can tell: short answers, by their text or their end.

The stronger arm's answer is the reference, and so the yardstick of what can be told: whether two answers are compared
hangs on the length of the reference alone. A rule that took long answers when they agree, and dropped them when not,
would flatter the weaker arm; one that dropped the weaker arm's rambling would too.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Final

import orjson

MAX_REFERENCE_CHARS: Final = 200

_WORD = re.compile(r"(yes|no|true|false)\b")
_LETTER = re.compile(r"\(?([a-j])(?:[).:]|$)")
_LETTER_AT_END = re.compile(r"\b(?:answer|option|choice)(?: is)?:? ?\(?([a-j])\)?$")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_MARKUP = re.compile(r"\*\*|`|\$|\\[()\[\]]")


def agrees(answer: str, reference: str) -> bool | None:
    """Whether `answer` says the same as `reference`; None where the reference is too long to tell.

    The same is: the same text but for case, white space, mark-up and punctuation around it; the same JSON; or the same
    end, which is a yes or no, a choice's letter, or the last number. Of an answer that is long itself, the end is
    looked for in its last line.
    """
    if len(reference) > MAX_REFERENCE_CHARS:
        return None
    if _normal(answer) == _normal(reference):
        return True
    ends = _end(answer), _end(reference)
    return ends[0] is not None and ends[0] == ends[1]


def _normal(text: str) -> str:
    if text[:1] in ("{", "["):
        try:
            return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
        except orjson.JSONDecodeError:
            pass  # a text that only begins like one
    return _plain(text).strip(" .!?,;:\"'()[]")


def _plain(text: str) -> str:
    """`text` without mark-up, upper case and white space that says nothing."""
    bare = _MARKUP.sub("", _BOXED.sub(r"\1", unicodedata.normalize("NFKC", text)))
    return " ".join(bare.casefold().split())


def _end(text: str) -> str | Decimal | None:
    """What a short answer comes down to, or the last line of a long one; None where it is no such thing."""
    if text[:1] in ("{", "["):
        return None
    last = text if len(text) <= MAX_REFERENCE_CHARS else text.strip().splitlines()[-1]
    plain = _plain(last)
    for pattern in (_WORD, _LETTER):
        if match := pattern.match(plain):
            return match[1]
    if match := _LETTER_AT_END.search(plain.rstrip(".")):
        return match[1]
    numbers = _NUMBER.findall(plain)
    return Decimal(numbers[-1].replace(",", "")) if numbers else None
