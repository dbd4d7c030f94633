"""A part built with the CAD tool to a description, judged by how much of it is where it should be."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from train.domains.base import Domain, Family, Item, Verdict
from train.domains.geometry.blocks import Block
from train.domains.tool_use.conduct import conduct
from train.domains.tool_use.task import Reading, ToolDomain, ToolTask, calling, one_by_one
from train.tools.replay import replayed
from train.tools.solids import Tree, difference_volume, volume
from train.transcript import ToolCall, Transcript

PART: Final = "part"
TOLERANCE: Final = 0.0001
"""The share of the volume by which a right part may differ: rounding, and less than the smallest pin."""


class BuildDomain(ToolDomain):
    """A plate at level 0, with holes or pins from level 1 on. What lies near earns what it gains on the bare plate."""

    name: ClassVar[str] = "geometry_build"
    description: ClassVar[str] = (
        "Build a described part with a CAD tool; checked by the volume that is not as described."
    )
    family: ClassVar[Family] = Family.GEOMETRY

    def draw(self, rng: random.Random, level: int) -> ToolTask:
        """As `ToolDomain.draw`."""
        low = [rng.randrange(0, 20) for _ in range(3)]
        size = [rng.randrange(20, 60), rng.randrange(20, 60), rng.randrange(4, 12)]
        plate = Block((low[0], low[1], low[2]), (low[0] + size[0], low[1] + size[1], low[2] + size[2]))
        calls = [calling("cad_box", name=PART, size=[*size]), calling("cad_move", name=PART, by=[*low])]
        told = [f"A plate {plate.words}"]
        for place in range(level):
            words, more = _feature(rng, plate, f"f{place}")
            told.append(words)
            calls += more
        return ToolTask(
            prompt=f"Build a part and name it {PART}. {'. '.join(told)}. Coordinates are in mm. "
            "Answer with the word done.",
            tools={"cad": {"parts": {}}},
            turns=one_by_one(*calls),
            answer="done",
            reading=Reading.ANY,
        )

    def verify(self, item: Item, transcript: Transcript) -> Verdict:
        """`fit` is the share of the described volume that is not wrong, in [0, 1]."""
        assert item.environment is not None, "the part is built with a tool"
        data: Mapping[str, Any] = item.data
        replay = replayed(item.environment, transcript)
        if dict(transcript.state) != dict(replay.state):
            return Verdict(score=0.0, passed=False, evidence="the state is not what these calls leave")
        goal = data["goal"]["cad"]["parts"][PART]
        parts: Any = replay.state["cad"]
        wrong = _wrong_share(parts["parts"].get(PART), goal)
        is_right = wrong <= TOLERANCE and bool(transcript.answer.strip())
        expected = [call for turn in data["turns"] for call in turn]
        worth = max(0.5, 1.0 - self.price * max(0, len(replay.calls) - len(expected)))
        return Verdict(
            score=worth if is_right else _partial(wrong, goal),
            passed=is_right,
            parts={"fit": 1.0 - min(1.0, wrong), **conduct(transcript, replay, expected)},
            evidence="" if is_right else f"{min(1.0, wrong):.0%} of the part's volume is not as described",
        )


def _feature(rng: random.Random, plate: Block, name: str) -> tuple[str, list[ToolCall]]:
    """A hole through the plate, or a pin on it: its words and the calls that make it."""
    radius = rng.randrange(2, 6)
    x, y = (rng.randrange(plate.low[axis] + 6, plate.high[axis] - 5) for axis in (0, 1))
    if rng.random() < 0.5:
        bottom, height, boolean = plate.low[2] - 1, plate.size[2] + 2, "cad_difference"
        words = f"A round hole of radius {radius} goes through it along z at x {x}, y {y}"
    else:
        bottom, height, boolean = plate.low[2], plate.size[2] + rng.randrange(3, 15), "cad_union"
        words = f"A round pin of radius {radius} at x {x}, y {y} goes from its bottom to z {bottom + height}"
    return words, [
        calling("cad_cylinder", name=name, radius=radius, height=height),
        calling("cad_move", name=name, by=[x, y, bottom]),
        calling(boolean, name=PART, of=[PART, name]),
    ]


def _wrong_share(built: Tree | None, goal: Tree) -> float:
    """The volume of what is too much and what is lacking, to the volume of what is described; at least 0."""
    return max(0.0, difference_volume(built, goal)) / volume(goal) if built is not None else 1.0


def _partial(wrong: float, goal: Tree) -> float:
    """Half at most: what a part gains on the bare plate, which is innermost in the description."""
    plate = goal
    while plate[0] in ("union", "difference"):
        plate = plate[1]
    bare = _wrong_share(plate, goal)
    return 0.5 * max(0.0, bare - wrong) / bare if bare > TOLERANCE else 0.0


DOMAIN: Final[Domain] = BuildDomain()
