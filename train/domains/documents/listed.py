"""Answers that are lists, parted by commas: as sets, or in an order. What is missing costs, so does what is too much.

A part that is no word or number of the asked form makes the whole worth nothing: a list in doubt is no answer.
"""

from __future__ import annotations

import re
from abc import ABC
from typing import ClassVar, Final

from train.domains.base import Family, Item, Verdict
from train.domains.drawn import DrawnDomain
from train.verifiers.answers import items

LENGTHS: Final = (12, 40, 120, 360, 1_000, 1_850)
"""As `text.LENGTHS`, but for the last, which with question and answer stays within 32,768 tokens of SmolLM2."""
_PART: Final = re.compile(r"\w+")
MAX_PARTS: Final = 64


class ListedDomain(DrawnDomain, ABC):
    """Questions to documents, answered by all of several things."""

    family: ClassVar[Family] = Family.DOCUMENTS
    num_levels: ClassVar[int] = len(LENGTHS)
    is_ordered: ClassVar[bool] = False

    def judge(self, item: Item, text: str) -> Verdict:
        """`retrieval` is the share of what was to be said, `precision` that of what was said."""
        expected, said = parts(item.answer), parts(text)
        if not said:
            return Verdict(score=0.0, passed=False, evidence="an answer is a list of single words or numbers")
        if self.is_ordered:
            num_right = sum(one == other for one, other in zip(said, expected, strict=False))
            num_all = max(len(said), len(expected))
        else:
            num_right = len({*said} & {*expected})
            num_all = len(said) + len(expected) - num_right  # a thing said twice is one too many
        is_right = num_right == num_all
        return Verdict(
            score=num_right / num_all,
            passed=is_right,
            parts={"retrieval": num_right / len(expected), "precision": num_right / len(said)},
            evidence=""
            if is_right
            else f"{num_right} of {len(said)} are right, and {len(expected)} were asked for",
        )


def parts(text: str) -> tuple[str, ...]:
    """The members of a list, in lower case; none where one is not a single word or number."""
    found = items(text) or ()
    is_list = len(found) <= MAX_PARTS and all(_PART.fullmatch(part) for part in found)
    return tuple(part.casefold() for part in found) if is_list else ()
