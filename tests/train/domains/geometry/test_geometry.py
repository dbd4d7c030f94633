"""Geometry: the kernel against counted cubes, nonsense, and how near a part comes."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest

from train.domains import catalog
from train.domains.geometry.blocks import cells, drawn_block, joined
from train.tools.replay import performed
from train.tools.solids import SolidError, Tree, check, difference_volume, measures, volume
from train.transcript import ToolCall


def test_the_kernel_counts_as_cubes_do() -> None:
    """Unions, differences and what two parts do not share, of blocks on whole millimetres, are exact."""
    rng = random.Random(1)
    for _ in range(40):
        one, other = ([drawn_block(rng, 9) for _ in range(rng.randrange(1, 4))] for _ in range(2))
        assert volume(joined(one)) == pytest.approx(len(cells(one)), abs=1e-6)
        cut = ["difference", joined(one), joined(other)]
        assert volume(cut) == pytest.approx(len(cells(one) - cells(other)), abs=1e-6)
        shared = ["intersection", joined(one), joined(other)]
        assert volume(shared) == pytest.approx(len(cells(one) & cells(other)), abs=1e-6)
        wrong = difference_volume(joined(one), joined(other))
        assert wrong == pytest.approx(len(cells(one) ^ cells(other)), abs=1e-6)


def test_round_things_come_near_their_formulas() -> None:
    """64 segments miss a circle's area by a sixth of a percent (n/2π · sin 2π/n); a drilled ring has one hole."""
    share = 64 / (2 * math.pi) * math.sin(2 * math.pi / 64)
    assert volume(["cylinder", 5, 10]) == pytest.approx(share * math.pi * 250, rel=1e-6)
    assert volume(["sphere", 5]) == pytest.approx(4 / 3 * math.pi * 125, rel=0.025)
    ring = ["difference", ["cylinder", 5, 4], ["move", [0, 0, -1], ["cylinder", 2, 6]]]
    assert measures(ring).genus == 1
    assert measures(["union", ["box", [1, 1, 1]], ["move", [5, 0, 0], ["box", [1, 1, 1]]]]).num_pieces == 2
    nothing = measures(["intersection", ["box", [1, 1, 1]], ["move", [5, 0, 0], ["box", [1, 1, 1]]]])
    assert (nothing.volume, nothing.num_pieces) == (0.0, 0)


@pytest.mark.parametrize(
    "tree",
    [
        [],
        "box",
        None,
        ["box"],
        ["box", [1, 2]],
        ["box", [1, 2, 0]],
        ["box", [1, 2, -3]],
        ["box", [1, 2, math.nan]],
        ["box", [1, 2, 1e9]],
        ["box", [1, 2, True]],
        ["sphere", "2"],
        ["cylinder", 2],
        ["cone", 2],
        ["move", [1, 2, 3]],
        ["move", [1, 2, math.inf], ["sphere", 2]],
        ["scale", [0, 1, 1], ["sphere", 2]],
        ["union"],
        ["union", *[["sphere", 2]] * 100],
    ],
)
def test_what_is_no_solid_never_reaches_the_kernel(tree: Any) -> None:
    """Odd shapes, sizes and numbers, and too many of them, are refused."""
    with pytest.raises(SolidError):
        check(tree)


def test_a_deep_nest_is_refused_without_a_deep_stack() -> None:
    """Ten thousand moves of a sphere are too many."""
    tree: Tree = ["sphere", 2]
    for _ in range(10_000):
        tree = ["move", [1, 1, 1], tree]
    with pytest.raises(SolidError):
        check(tree)


def test_random_trees_are_measured_without_harm() -> None:
    """Whatever passes the check has a finite volume that is not below 0, but for rounding."""
    rng = random.Random(2)

    def tree(depth: int) -> Tree:
        kind = rng.choice(
            ("box", "cylinder", "sphere") if depth == 0 else ("move", "turn", "scale", "union", "difference")
        )
        sizes = [rng.choice((0.1, 1, 1.0001, 3, 1000)) for _ in range(3)]
        return {
            "box": lambda: ["box", sizes],
            "cylinder": lambda: ["cylinder", *sizes[:2]],
            "sphere": lambda: ["sphere", sizes[0]],
            "move": lambda: ["move", [rng.choice((0, 1, -1000.5)) for _ in range(3)], tree(depth - 1)],
            "turn": lambda: ["turn", [rng.choice((0, 90, 33.3, -1e4)) for _ in range(3)], tree(depth - 1)],
            "scale": lambda: ["scale", [rng.choice((0.01, 1, 100)) for _ in range(3)], tree(depth - 1)],
            "union": lambda: ["union", tree(depth - 1), tree(depth - 1)],
            "difference": lambda: ["difference", tree(depth - 1), tree(depth - 1)],
        }[kind]()

    for _ in range(60):
        found = measures(tree(rng.randrange(4)))
        assert math.isfinite(found.volume)
        assert found.volume >= -1e-3 * max(1.0, abs(found.volume))


def test_bounds_by_hand() -> None:
    """A quarter turn about z takes x to y and y to −x, as the prompt says."""
    turned = measures(["turn", [0, 0, 90], ["box", [3, 2, 1]]])
    assert [*turned.bounds[0], *turned.bounds[1]] == pytest.approx([-2, 0, 0, 0, 3, 1], abs=1e-9)


def test_volumes_that_are_asked_for_are_the_kernels() -> None:
    """What cells count is what the kernel measures of the same trees."""
    for level in range(4):
        for index in range(5):
            item = catalog.get("geometry_volume").item(3, index, level)
            made, cuts = (["union", *item.data[part]] for part in ("made", "cuts"))  # type: ignore[misc]
            assert volume(["difference", made, cuts]) == pytest.approx(int(item.answer), abs=1e-6)


def test_comparisons_are_what_cells_say() -> None:
    """Read from the prompt again, the two parts differ by the reference's number."""
    for index in range(5):
        item = catalog.get("geometry_compare").item(3, index, 3)
        parts = []
        for text in re.findall(r"Part [AB] is (.*?)\. ", item.prompt):
            corners = re.findall(r"from \((\d+), (\d+), (\d+)\) to \((\d+), (\d+), (\d+)\)", text)
            parts.append(
                {
                    (x, y, z)
                    for a, b, c, d, e, f in (map(int, each) for each in corners)
                    for x in range(a, d)
                    for y in range(b, e)
                    for z in range(c, f)
                }
            )
        assert len(parts[0] ^ parts[1]) == int(item.answer)


def test_a_part_earns_by_how_near_it_comes() -> None:
    """The bare plate earns nothing, one of two features something, all of it everything; a wrong name nothing."""
    domain = catalog.get("geometry_build")
    item = domain.item(3, 0, 2)
    turns: Any = item.data["turns"]
    calls = [ToolCall(*turn[0]) for turn in turns]
    assert item.environment is not None

    def verdict(num: int, answer: str = "done") -> Any:
        made = tuple((call,) for call in calls[:num])
        return domain.verify(item, performed(item.environment, made, answer))  # type: ignore[arg-type]

    scores = [verdict(num).score for num in (0, 2, 5, 8)]
    assert scores[:2] == [0.0, 0.0]
    assert 0.0 < scores[2] < 0.5
    assert scores[3] == 1.0
    assert verdict(8).parts["fit"] == pytest.approx(1.0, abs=1e-6)
    assert not verdict(8, answer="").passed
