"""Solids as trees of primitives, moves and booleans, and what the kernel (manifold3d) measures of them.

A tree is JSON: `["box", [x, y, z]]`, `["cylinder", radius, height]`, `["sphere", radius]`, `["move", [x, y, z], tree]`,
`["turn", [x, y, z], tree]` (degrees, about the axes in that order), `["scale", [x, y, z], tree]`, and `["union" |
"difference" | "intersection", tree, …]`. Lengths are millimetres; a box stands in the first octant, a cylinder on the
origin along z, a sphere about it. Sizes are bounded before the kernel sees them, for it is native code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, sub, xor
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from manifold3d import Manifold

NUM_SEGMENTS: Final = 64
"""Of a full circle, in a cylinder."""
NUM_SPHERE_SEGMENTS: Final = 32
"""Of its equator. With twice as many, the largest part that is allowed takes seconds to measure."""
MIN_SIZE: Final = 0.1
MAX_SIZE: Final = 1_000.0
MAX_NODES: Final = 60

Tree = list[Any]


class SolidError(ValueError):
    """A tree that is none, or too large."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one solid."""

    volume: float
    """mm³"""
    bounds: tuple[tuple[float, float, float], tuple[float, float, float]]
    """Least and greatest corner; both the origin where the solid is empty."""
    genus: int
    """Holes through a connected solid."""
    num_pieces: int


def measures(tree: Tree) -> Measures:
    """What a tree comes to.

    Raises:
        SolidError: as `check`.
    """
    solid = _solid(check(tree))
    if solid.is_empty():
        return Measures(0.0, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), 0, 0)
    bounds = tuple(float(value) for value in solid.bounding_box())
    pieces = solid.decompose()
    return Measures(
        float(solid.volume()),
        (bounds[:3], bounds[3:]),  # type: ignore[arg-type]
        sum(int(piece.genus()) for piece in pieces),
        len(pieces),
    )


def volume(tree: Tree) -> float:
    """mm³."""
    return float(_solid(check(tree)).volume())


def difference_volume(one: Tree, other: Tree) -> float:
    """The volume of what belongs to one of two solids and not to the other, in mm³: 0 where they are the same."""
    first, second = _solid(check(one)), _solid(check(other))
    return float((first - second).volume() + (second - first).volume())


def check(tree: Any) -> Tree:
    """The tree itself.

    Raises:
        SolidError: it is none, a size is out of bounds, or it has too many nodes.
    """
    if _num_nodes(tree, 0) > MAX_NODES:
        raise SolidError(f"a part of more than {MAX_NODES} primitives, moves and booleans is too large")
    checked: Tree = tree
    return checked


def _num_nodes(tree: Any, depth: int) -> int:
    if depth > MAX_NODES or not isinstance(tree, list) or not tree:
        raise SolidError("no solid")
    match tree:
        case ["box", [*sizes]] if len(sizes) == 3:
            _check_sizes(*sizes)
            return 1
        case ["cylinder", radius, height]:
            _check_sizes(radius, height)
            return 1
        case ["sphere", radius]:
            _check_sizes(radius)
            return 1
        case ["scale", [*factors], inner] if len(factors) == 3:
            if not all(_is_number(factor) and 0.01 <= factor <= 100 for factor in factors):
                raise SolidError("factors must be between 0.01 and 100")
            return 1 + _num_nodes(inner, depth + 1)
        case ["move" | "turn", [*by], inner] if len(by) == 3:
            if not all(_is_number(value) and abs(value) <= 10 * MAX_SIZE for value in by):
                raise SolidError(f"moves and angles must be within ±{10 * MAX_SIZE:g}")
            return 1 + _num_nodes(inner, depth + 1)
        case ["union" | "difference" | "intersection", _, *_]:
            return 1 + sum(_num_nodes(inner, depth + 1) for inner in tree[1:])
    raise SolidError("no solid")


def _check_sizes(*sizes: Any) -> None:
    if not all(_is_number(size) and MIN_SIZE <= size <= MAX_SIZE for size in sizes):
        raise SolidError(f"sizes must be between {MIN_SIZE:g} and {MAX_SIZE:g} mm")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _solid(tree: Tree) -> Manifold:
    from manifold3d import Manifold

    primitives: Mapping[str, Callable[..., Manifold]] = {
        "box": lambda size: Manifold.cube(size),
        "cylinder": lambda radius, height: Manifold.cylinder(height, radius, radius, NUM_SEGMENTS),
        "sphere": lambda radius: Manifold.sphere(radius, NUM_SPHERE_SEGMENTS),
        "move": lambda by, inner: _solid(inner).translate(by),
        "turn": lambda by, inner: _solid(inner).rotate(by),
        "scale": lambda by, inner: _solid(inner).scale(by),
        "union": lambda *inner: reduce(add, map(_solid, inner)),
        "difference": lambda *inner: reduce(sub, map(_solid, inner)),
        "intersection": lambda *inner: reduce(xor, map(_solid, inner)),
    }
    return primitives[tree[0]](*tree[1:])
