"""Prompts with known answers from records `{domain, level, prompt, answer}`: one's own, or made by another generator.

    item = item_of({"domain": "gcd", "level": 0, "prompt": "What is the GCD of 12 and 18?", "answer": "6"})

An answer is a number, or words that are to be the answer's first line. What the checks cannot tell from a wrong answer
is refused when it is read, not when a model has answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from router.prompts import Item, in_turn
from router.prompts_checks import Check, Number, Words

MEMBERS: Final = ("domain", "level", "prompt", "answer")

_NUMBER = re.compile(r"[-−]?(?:0|[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]*)(?:\.[0-9]+)?")
_MAX_DIGITS: Final = 15
"""A float holds as many exactly (IEEE 754 binary64); a longer number is compared as it is written."""
_SIGN = re.compile(r"[^\w\s.,!?'’\"-]|(?<!\w)-|-(?!\w)")
"""What comparing words alone would overlook: `1/2`, `-5 °C`, `C++`."""


def item_of(members: Mapping[str, Any]) -> Item:
    """The item of a record. Its id follows from the prompt alone.

    Raises:
        ValueError: a member is missing, unknown or of another type, or the answer cannot be checked; says which.
    """
    for name in MEMBERS:
        if name not in members:
            raise ValueError(f"no {name!r}")
    if unknown := sorted(set(members) - set(MEMBERS)):
        raise ValueError(f"unknown members: {', '.join(unknown)}")
    for name in ("domain", "prompt", "answer"):
        if not isinstance(members[name], str) or not members[name].strip():
            raise ValueError(f"{name!r} is {members[name]!r}, which is no text")
    level = members["level"]
    if not isinstance(level, int) or isinstance(level, bool) or level < 0:
        raise ValueError(f"'level' is {level!r}, which is no whole number of at least 0")
    prompt, answer = members["prompt"], members["answer"].strip()
    item = Item(
        prompt_id=f"recorded/{sha256(prompt.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}",
        domain=members["domain"],
        level=level,
        prompt=prompt,
        check=_check(answer),
        reference=answer,
    )
    if not item.passes(answer):
        raise ValueError(f"the answer {answer!r} has several lines, or is a line or sentence of the prompt")
    if item.passes(prompt):
        raise ValueError("the prompt repeated would pass; ask in three words or more")
    return item


def mixed(items: Iterable[Item], num_items: int) -> list[Item]:
    """Up to `num_items` of them, taken in turn from every domain and level, as in `router.prompts.prompt_set`."""
    groups: dict[tuple[int, str], list[Item]] = {}
    for item in items:
        groups.setdefault((item.level, item.domain), []).append(item)
    return in_turn([iter(groups[key]) for key in sorted(groups, key=lambda key: key[0])], num_items)


def _check(answer: str) -> Check:
    if _NUMBER.fullmatch(answer) and sum(map(str.isdigit, answer)) <= _MAX_DIGITS:
        return Number(float(answer.replace(",", "").replace("−", "-")))
    if not re.search(r"\w", answer) or _SIGN.search(answer):
        raise ValueError(f"the answer {answer!r} is neither a number nor words")
    return Words(answer)
