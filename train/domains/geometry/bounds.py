"""Where a block comes to lie after moves and turns."""

from __future__ import annotations

import random
from typing import ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.drawn import DrawnDomain, Question
from train.domains.geometry.blocks import drawn_block
from train.tools.solids import Tree, measures
from train.verifiers.answers import judged, numbers


class BoundsDomain(DrawnDomain):
    """A level is one quarter turn and one move more."""

    name: ClassVar[str] = "geometry_bounds"
    description: ClassVar[str] = "Turn and move a block; checked by the six coordinates of its bounds."
    family: ClassVar[Family] = Family.GEOMETRY

    def draw(self, rng: random.Random, level: int) -> Question:
        """As `DrawnDomain.draw`."""
        block = drawn_block(rng, 12)
        tree: Tree = block.tree
        told: list[str] = []
        for _ in range(1 + level):
            axis, degrees = rng.randrange(3), rng.choice((90, 180, 270))
            by = [rng.randrange(-9, 10) for _ in range(3)]
            turn = [degrees if place == axis else 0 for place in range(3)]
            tree = ["move", by, ["turn", turn, tree]]
            told.append(
                f"turned by {degrees}° about the {'xyz'[axis]} axis and moved by ({', '.join(map(str, by))})"
            )
        low, high = measures(tree).bounds
        return Question(
            prompt=f"The block {block.words} is {', then '.join(told)}. Turns are about the axes of space, "
            "through the "
            "origin, counter-clockwise seen from the axis's positive end. Where does it lie then? Answer "
            "with its least "
            "x, y, z and its greatest x, y, z, six numbers parted by commas.",
            answer=", ".join(str(round(value)) for value in (*low, *high)),
        )

    def judge(self, item: Item, text: str) -> Verdict:
        """All six."""
        said = numbers(text)
        is_right = said is not None and [*said] == [int(value) for value in item.answer.split(", ")]
        return judged(is_right, "" if is_right else "it does not lie there")


DOMAIN: Final[Domain] = BoundsDomain()
