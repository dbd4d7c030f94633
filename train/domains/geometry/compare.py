"""How much two parts differ."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain, Family
from train.domains.drawn import NumberDomain, Question
from train.domains.geometry.blocks import Block, drawn_block, joined
from train.tools.solids import difference_volume


class CompareDomain(NumberDomain):
    """Two parts of one block each at level 0; a level adds a block to either in turn."""

    name: ClassVar[str] = "geometry_compare"
    description: ClassVar[str] = (
        "Reckon the volume that belongs to one of two parts and not to both; exactly."
    )
    family: ClassVar[Family] = Family.GEOMETRY

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        reach = 10 + 2 * level
        one = [drawn_block(rng, reach, least=3) for _ in range(1 + (level + 1) // 2)]
        other = [drawn_block(rng, reach, least=3) for _ in range(1 + level // 2)]
        return Question(
            prompt=f"Part A is {_listed(one)}. Part B is {_listed(other)}. Coordinates are in mm. How many "
            "mm³ belong to one "
            "of the parts, but not to both? Answer with the number.",
            answer=str(round(difference_volume(joined(one), joined(other)))),
        )


def _listed(blocks: list[Block]) -> str:
    return " with ".join(f"the block {block.words}" for block in blocks)


DOMAIN: Final[Domain] = CompareDomain()
