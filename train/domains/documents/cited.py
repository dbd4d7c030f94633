"""Answers that cite where they stand: `value; place`. Half is paid for the value, all for value and place together."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Final

from train.domains.base import Family, Item, Verdict
from train.domains.documents.text import LENGTHS
from train.domains.drawn import DrawnDomain, is_text
from train.verifiers.answers import items

VALUE_WORTH: Final = 0.5
"""Of a value that is right with a place that is not."""


class CitedDomain(DrawnDomain, ABC):
    """Questions to documents, answered by a value and its place, parted by a semicolon."""

    family: ClassVar[Family] = Family.DOCUMENTS
    num_levels: ClassVar[int] = len(LENGTHS)

    def judge(self, item: Item, text: str) -> Verdict:
        """`answer` is whether the value is right, `retrieval` the place, `consistency` that the two belong together."""
        return cited(item.answer, text)


def cited(expected: str, text: str) -> Verdict:
    """The verdict on a value and a place."""
    said = items(text, ";") or ()
    value, place = expected.split("; ")
    is_value = len(said) in (1, 2) and is_text(said[0], value)
    is_place = len(said) == 2 and is_text(said[1], place)
    is_right = is_value and is_place
    return Verdict(
        score=1.0 if is_right else VALUE_WORTH * is_value,
        passed=is_right,
        parts={
            "answer": float(is_value),
            "retrieval": float(is_place),
            "consistency": float(is_value == is_place and len(said) == 2),
        },
        evidence="" if is_right else _evidence(len(said), is_value),
    )


def _evidence(num_said: int, is_value: bool) -> str:
    if num_said != 2:
        return "an answer is a value and a place, parted by a semicolon"
    return "the value is not the one that stands there" if not is_value else "it stands elsewhere"
