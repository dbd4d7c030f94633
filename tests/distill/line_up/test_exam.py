"""Which domains are asked at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from distill.line_up.exam import SITTING_ITEMS, sittings


@dataclass
class Paper:
    """Of so many items."""

    num_items: int
    items: list[None] = field(init=False)

    def __post_init__(self) -> None:
        self.items = [None] * self.num_items


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([3], [1]),
        ([SITTING_ITEMS, SITTING_ITEMS], [1, 1]),
        ([SITTING_ITEMS // 2] * 5, [2, 2, 1]),
        ([SITTING_ITEMS - 1, 200, 1, 1], [2, 2]),
    ],
)
def test_sittings_fill_the_slots(sizes: list[int], expected: list[int]) -> None:
    """Each but the last has enough items, none has a paper more than it takes, and the order is that of the papers."""
    papers: Any = [Paper(size) for size in sizes]
    found = sittings(papers)
    assert [len(sitting) for sitting in found] == expected
    assert [paper for sitting in found for paper in sitting] == papers
