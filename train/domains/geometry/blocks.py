"""Solids of blocks on whole millimetres, in words and as trees: their volumes are whole numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from train.tools.solids import Tree

Corner = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """A box along the axes, in mm."""

    low: Corner
    high: Corner

    @property
    def size(self) -> list[int]:
        """Along x, y and z."""
        return [high - low for low, high in zip(self.low, self.high, strict=True)]

    @property
    def tree(self) -> Tree:
        """As `train.tools.solids` has it."""
        return ["move", [*self.low], ["box", self.size]]

    @property
    def words(self) -> str:
        """From corner to corner."""
        return f"from {_point(self.low)} to {_point(self.high)}"


def drawn_block(rng: random.Random, reach: int, least: int = 2) -> Block:
    """Somewhere within [0, reach]³, no side shorter than `least`."""
    spans = [sorted(rng.sample(range(reach + 1), 2)) for _ in range(3)]
    while any(high - low < least for low, high in spans):
        spans = [sorted(rng.sample(range(reach + 1), 2)) for _ in range(3)]
    (x, right), (y, back), (z, top) = spans
    return Block((x, y, z), (right, back, top))


def cells(blocks: Sequence[Block]) -> set[Corner]:
    """The cubic millimetres that any of the blocks covers: what the kernel is checked against."""
    return {
        (x, y, z)
        for block in blocks
        for x in range(block.low[0], block.high[0])
        for y in range(block.low[1], block.high[1])
        for z in range(block.low[2], block.high[2])
    }


def joined(blocks: Sequence[Block]) -> Tree:
    """Their union."""
    return ["union", *(block.tree for block in blocks)]


def _point(corner: Corner) -> str:
    return f"({', '.join(map(str, corner))})"
