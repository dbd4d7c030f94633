"""A table, read: how many copies there are of its prompts, and that they stay with them."""

from __future__ import annotations

import numpy as np
import pytest

from router.fit_config import FitConfig
from router.outcome_table import OutcomeTable
from router.prepared import Prepared, prepare


def prepared(num: int) -> Prepared:
    return prepare(
        OutcomeTable(
            prompts=tuple(f"prompt number {chr(97 + place)} of a few" for place in range(num)),
            domains=("d",) * num,
            arms=("fast", "full"),
            successes=np.zeros((num, 2)),
            num_output_tokens=np.zeros((num, 2)),
            costs=np.zeros((num, 2)),
        )
    )


@pytest.mark.parametrize(
    ("num_copies", "max_copies", "expected"),
    [
        (3, 100, [3] * 10),  # as many as are asked for
        (3, 20, [2] * 10),  # fewer of each
        (3, 6, [0] * 4 + [1] * 6),  # one of some
        (0, 100, [0] * 10),
        (3, 0, [0] * 10),
    ],
)
def test_copies_are_bounded(num_copies: int, max_copies: int, expected: list[int]) -> None:
    """Where all would be too many there are fewer of each, and then of some alone."""
    copies = prepared(10).copied(FitConfig(num_copies=num_copies, max_copies=max_copies)).copies
    assert copies is not None
    assert sorted(map(len, copies)) == expected


def test_copies_stay_with_their_prompt() -> None:
    """A part of the table has the copies of its own prompts: what is left out is left out in every form."""
    whole = prepared(10).copied(FitConfig(num_copies=2))
    part = whole.select(np.array([7, 2]))
    assert whole.copies is not None
    assert part.copies == (whole.copies[7], whole.copies[2])
    assert part.table.prompts == (whole.table.prompts[7], whole.table.prompts[2])
    assert prepared(3).select(np.array([1])).copies is None
