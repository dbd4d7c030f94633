"""The volume of a solid that is told in words."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.drawn import NumberDomain, Question
from train.domains.geometry.blocks import Block, cells, drawn_block


class VolumeDomain(NumberDomain):
    """Level 0 is a block with a block cut out, which sticks out from level 1 on; each level adds a block or a cut."""

    name: ClassVar[str] = "geometry_volume"
    description: ClassVar[str] = "Reckon the volume of joined and cut blocks; the answer is the exact number."
    family: ClassVar[Family] = Family.GEOMETRY

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        reach = 10 + 2 * level
        made = [drawn_block(rng, reach, least=4) for _ in range(1 + level // 2)]
        cuts = [drawn_block(rng, reach) for _ in range((1 + level) // 2)] or [_inside(rng, made[0])]
        volume = len(cells(made) - cells(cuts))
        return Question(
            prompt=f"A solid is made of {_listed(made)}. What lies in {_listed(cuts)} is cut out of it. "
            "Coordinates are in "
            "mm. What is its volume in mm³? Answer with the number.",
            answer=str(volume),
            data={"made": [block.tree for block in made], "cuts": [block.tree for block in cuts]},
        )


def _inside(rng: random.Random, block: Block) -> Block:
    low, high = [], []
    for one, other in zip(block.low, block.high, strict=True):
        start, end = sorted(rng.sample(range(one, other + 1), 2))
        low.append(start)
        high.append(end)
    return Block((low[0], low[1], low[2]), (high[0], high[1], high[2]))


def _listed(blocks: list[Block]) -> str:
    return " and ".join(f"the block {block.words}" for block in blocks)


DOMAIN: Final[Domain] = VolumeDomain()
