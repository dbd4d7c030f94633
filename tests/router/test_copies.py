"""Copies to fit on: the task is still there, and none of the words around it is one that robustness is tested with."""

from __future__ import annotations

import numpy as np
import pytest

from router.copies import CLOSINGS, COPYINGS, LATER_TURNS, OPENINGS, copies_of
from router.features import read
from router.outcome_table import view_of
from router.robustness import REWRITINGS

PROMPT = "What is 12 × 7?\nAnswer with the number only; don't explain."


def runs(text: str, length: int = 3) -> set[tuple[str, ...]]:
    words = read((text,)).words
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}


@pytest.mark.parametrize("name", list(COPYINGS))
def test_copies_keep_the_task(name: str) -> None:
    """Every word of the prompt is still there, in its order, and something else beside it."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        copied = read(COPYINGS[name](PROMPT, generator).turns).words
        rest = iter(copied)
        assert all(word in rest for word in read((PROMPT,)).words)
        assert len(copied) > len(read((PROMPT,)).words)


def test_what_is_tested_is_not_fitted_on() -> None:
    """No three words of a phrase follow each other in what robustness is tested with, nor is a later turn the same."""
    tested = {run for rewrite in REWRITINGS.values() for run in runs(" ".join(rewrite("")))}
    assert tested
    for phrase in (*OPENINGS, *CLOSINGS):
        assert not runs(phrase) & tested, phrase
    assert not set(LATER_TURNS) & {turn for rewrite in REWRITINGS.values() for turn in rewrite("")}


def test_copies_are_of_each_kind_in_turn() -> None:
    """A few copies are of different kinds, more begin again, and the same draw gives the same."""
    num = 2 * len(COPYINGS)
    copies = copies_of(PROMPT, num, np.random.default_rng(1))
    assert len(copies) == num
    assert [copy.num_turns for copy in copies] == [1, 1, 1, 2] * 2
    assert copies == copies_of(PROMPT, num, np.random.default_rng(1))
    assert copies_of(PROMPT, 0, np.random.default_rng(1)) == ()
    assert view_of(PROMPT) not in copies
