"""The figure of a frontier: score against cost, and against the full tier's share, with the line between the ends."""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from loadtests.frontier_figures import Frontier, Gain, Point
from router.resampling import Estimate

ROUTED, INK = "#0b66c3", "#222222"
DPI: Final = 110


class MissingLibraryError(Exception):
    """What draws is not installed; the message names the remedy."""


def require_matplotlib() -> None:
    """Whether there is a library to draw with.

    Raises:
        MissingLibraryError: there is none.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingLibraryError(
            "--figure draws with matplotlib, which is not installed; pip install 'tierwise[router-fit]'"
        )


def frontier_png(of: Frontier, title: str) -> bytes:
    """The figure as PNG. A bar is the 95 % interval of what routing gains over the line, drawn from the line."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, of, lambda point: 1000 * point.cost.value, lambda gain: gain.at_cost)
    _panel(right, of, lambda point: 100 * point.full_share.value, lambda gain: gain.at_share)
    left.set(xlabel="cost of 1,000 requests", ylabel="right answers, %")
    right.set(xlabel="requests that the full tier answers, %")
    figure.suptitle(title, fontsize=10)
    figure.legend(
        *left.get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside lower center", ncols=3
    )
    buffer = io.BytesIO()
    # Without the version of what drew it, equal figures are equal files.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def _panel(
    axes: Any, of: Frontier, place: Callable[[Point], float], gain_of: Callable[[Gain], Estimate]
) -> None:
    ends = (of.fast, of.full)
    axes.plot(
        [place(end) for end in ends],
        [100 * end.score.value for end in ends],
        color=INK,
        linestyle="--",
        linewidth=1,
        marker="o",
        markersize=5,
        label="one tier always, and what a lot between them brings",
    )
    for end, where in zip(ends, ((6, -12), (-2, 8)), strict=True):
        axes.annotate(
            end.name,
            (place(end), 100 * end.score.value),
            xytext=where,
            textcoords="offset points",
            ha="left" if end is of.fast else "right",
            fontsize=8,
        )
    x = np.array([place(point) for point in of.routed.values()])
    scores = np.array([100 * point.score.value for point in of.routed.values()])
    gains = [gain_of(gain) for gain in of.gains.values()]
    below = np.array([100 * (gain.value - gain.low) for gain in gains])
    above = np.array([100 * (gain.high - gain.value) for gain in gains])
    order = np.argsort(x)
    axes.errorbar(
        x[order],
        scores[order],
        yerr=[below[order], above[order]],
        color=ROUTED,
        ecolor=ROUTED,
        elinewidth=1,
        capsize=2,
        marker="o",
        markersize=4,
        label="routed at budgets, 95 % of the gain over the line",
    )
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.15)
