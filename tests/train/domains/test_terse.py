"""Terse tasks: right answers pass, near ones do not, and the arithmetic is right."""

from __future__ import annotations

import re

import pytest

from train.domains.terse import DOMAINS, NUM_LEVELS, TerseDomain
from train.transcript import answered

BY_NAME = {domain.name: domain for domain in DOMAINS}


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
@pytest.mark.parametrize("level", range(NUM_LEVELS))
def test_the_reference_alone_passes(domain: TerseDomain, level: int) -> None:
    """The reference is worth 1; nothing, the task itself and the answer with something behind it are worth nothing."""
    for index in range(20):
        item = domain.item(3, index, level)
        assert domain.verify(item, domain.reference(item)).score == 1
        for wrong in ("", item.prompt, item.answer + " 0", "x" + item.answer):
            assert domain.verify(item, answered(wrong)).score == 0
        assert item == domain.item(3, index, level)


def test_by_other_means() -> None:
    """The answers are what Python says of the tasks as they stand."""
    for index in range(50):
        for name in ("terse_addition", "terse_subtraction"):
            item = BY_NAME[name].item(1, index, 2)
            assert int(item.answer) == eval(item.prompt[:-1])
        item = BY_NAME["terse_remainder"].item(1, index, 2)
        assert int(item.answer) == eval(item.prompt[:-1].replace("mod", "%"))
        item = BY_NAME["terse_maximum"].item(1, index, 2)
        assert int(item.answer) == max(map(int, re.findall(r"\d+", item.prompt)))
        item = BY_NAME["terse_counting"].item(1, index, 2)
        found = re.fullmatch(r"count (.) in (.*):", item.prompt)
        assert found
        assert int(item.answer) == found[2].count(found[1])


def test_levels_are_harder() -> None:
    """A level more is a longer task, on average."""
    for domain in DOMAINS:
        lengths = [
            sum(len(domain.item(0, index, level).prompt) for index in range(50))
            for level in range(NUM_LEVELS)
        ]
        assert lengths == sorted(lengths)
        assert lengths[0] < lengths[-1]
