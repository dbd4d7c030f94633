"""Line charts as SVG text, for reports that are one file and need no plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10
from typing import Final

WIDTH: Final = 760
HEIGHT: Final = 190
LEFT: Final = 64
RIGHT: Final = 12
TOP: Final = 26
BOTTOM: Final = 24
MAX_POINTS: Final = 600
"""Of a longer line, evenly spaced points are drawn."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: its label, its points, and its CSS class, which gives the colour."""

    label: str
    points: Points
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over the same x."""

    title: str
    lines: Sequence[Line]
    marks: Sequence[float] = ()
    """Where vertical marks stand."""
    band: tuple[float, float] | None = None
    """A shaded range of y."""
    x_label: str = "s"

    def svg(self) -> str:
        """The chart. Points that are not finite break no line: they are left out."""
        scale = self._scale()
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">',
            f'<text class="title" x="{LEFT}" y="14">{escape(self.title)}</text>',
            self._band(scale),
            *self._grid(scale),
            *(
                f'<path class="mark" d="M{scale.x(mark):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
                for mark in self.marks
            ),
            *(self._path(line, scale) for line in self.lines),
            *self._legend(),
            "</svg>",
        ]
        return "\n".join(part for part in parts if part)

    def _scale(self) -> _Scale:
        points = [point for line in self.lines for point in _finite(line.points)]
        xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
        ys += self.band or ()
        margin = 0.06 * (max(ys) - min(ys)) or 0.5 * abs(max(ys)) or 1.0
        return _Scale(min(xs), max(max(xs), min(xs) + 1e-9), min(ys) - margin, max(ys) + margin)

    def _band(self, scale: _Scale) -> str:
        if self.band is None:
            return ""
        low, high = scale.y(self.band[0]), scale.y(self.band[1])
        size = f'width="{WIDTH - LEFT - RIGHT}" height="{low - high:.1f}"'
        return f'<rect class="band" x="{LEFT}" y="{high:.1f}" {size}/>'

    def _grid(self, scale: _Scale) -> list[str]:
        parts = []
        for y in _ticks(scale.bottom, scale.top):
            at = scale.y(y)
            parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 6}" y="{at + 3:.1f}" text-anchor="end">{y:.6g}</text>'
            )
        for x in _ticks(scale.left, scale.right):
            label = f"{x:.6g} {self.x_label}" if x else "0"
            at = scale.x(x)
            parts.append(
                f'<text class="tick" x="{at:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{label}</text>'
            )
        return parts

    def _path(self, line: Line, scale: _Scale) -> str:
        points = _finite(line.points)
        points = points[:: max(1, len(points) // MAX_POINTS)]
        path = "L".join(f"{scale.x(x):.1f} {scale.y(y):.1f}" for x, y in points)
        return f'<path class="line {line.style}" d="M{path}"/>' if path else ""

    def _legend(self) -> list[str]:
        parts, at = [], WIDTH - RIGHT
        for line in reversed(self.lines):
            parts.append(
                f'<text class="legend {line.style}" x="{at}" y="14" text-anchor="end">{escape(line.label)}</text>'
            )
            at -= 7 * len(line.label) + 18
        return parts


@dataclass(frozen=True, slots=True)
class _Scale:
    left: float
    right: float
    bottom: float
    top: float

    def x(self, x: float) -> float:
        return LEFT + (x - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, y: float) -> float:
        return HEIGHT - BOTTOM - (y - self.bottom) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM)


def _finite(points: Points) -> list[tuple[float, float]]:
    return [point for point in points if isfinite(point[0]) and isfinite(point[1])]


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers between `low` and `high`."""
    raw = (high - low) / 5
    step = 10.0 ** floor(log10(raw))
    step *= next((factor for factor in (1, 2, 5) if factor * step >= raw), 10)
    first = -floor(-low / step)
    return [i * step for i in range(first, floor(high / step) + 1)]
