"""The plots of an evaluation as PNG: what the stronger arm buys in each order, and how far the probabilities hold."""

from __future__ import annotations

import importlib
import importlib.util
import io
from typing import Any, Final

import numpy as np

from router.evaluate import ArmReport, FrontierPoint, Report

ROUTER, OTHER, ORACLE, INK = "#0b66c3", "#777777", "#23803f", "#222222"
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
            "--report draws with matplotlib, which is not installed; pip install 'tierwise[router-fit]'"
        )


def frontier_png(report: Report, title: str) -> bytes:
    """Success against cost, or against the share of the stronger arm where costs are not known.

    The band is the paired interval: how sure it is that the router's order is better than a random one.
    """
    points = report.frontier
    are_costs_known = all(point.cost is not None for point in points)
    figure, axes = _figure(width=6.4, height=4.2)
    x = np.array([_place(point, is_cost=are_costs_known) for point in points])
    gained = np.array([[p.random + p.over_random.low, p.random + p.over_random.high] for p in points]).T
    # Random orders cost in proportion; the other orders are shown at the shares that they were measured at.
    straight = np.interp([p.strong_share for p in points], [0.0, 1.0], [x[0], x[-1]])
    axes.fill_between(
        x, gained[0], gained[1], color=ROUTER, alpha=0.18, linewidth=0, label="95 % of its gain over random"
    )
    axes.plot(straight, [p.oracle for p in points], color=ORACLE, linestyle=":", label="oracle")
    axes.plot(x, [p.router.value for p in points], color=ROUTER, linewidth=2, label="router")
    axes.plot(straight, [p.prompt_length for p in points], color=OTHER, linestyle="-.", label="prompt length")
    axes.plot(straight, [p.random for p in points], color=INK, linestyle="--", linewidth=1, label="random")
    for at, always, place in ((0, report.weak, (6, -12)), (-1, report.strong, (2, -18))):
        axes.plot([x[at]], [always.success.value], "o", color=INK, markersize=5)
        axes.annotate(
            f"always {always.arm}",
            (x[at], always.success.value),
            xytext=place,
            textcoords="offset points",
            ha="left" if at == 0 else "right",
            fontsize=8,
        )
    axes.set_xlabel(
        "cost of 1,000 requests" if are_costs_known else f"share of requests that go to {report.strong.arm}"
    )
    axes.set_ylabel("share of right answers")
    axes.set_title(title, fontsize=10)
    axes.margins(y=0.1)
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=5)
    return _png(figure)


def reliability_png(arm: ArmReport, title: str) -> bytes:
    """What came of predictions of about the same height, in the area of each point as many as it stands for."""
    figure, axes = _figure(width=4.2, height=4.2)
    predicted = [each.mean_probability for each in arm.reliability]
    happened = [each.success_share for each in arm.reliability]
    sizes = [12 + 300 * each.num / arm.num_outcomes for each in arm.reliability]
    errors = [
        1.96 * np.sqrt(max(share * (1 - share), 1e-4) / each.num)
        for share, each in zip(happened, arm.reliability, strict=True)
    ]
    axes.plot([0, 1], [0, 1], color=OTHER, linestyle="--", linewidth=1)
    axes.errorbar(predicted, happened, yerr=errors, fmt="none", ecolor=ROUTER, alpha=0.5)
    axes.scatter(predicted, happened, s=sizes, color=ROUTER, alpha=0.8)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability of success", ylabel="share of successes")
    axes.set_title(f"{title}, ECE {arm.calibration_error.value:.3f}", fontsize=10)
    return _png(figure)


def _place(point: FrontierPoint, *, is_cost: bool) -> float:
    return 1000 * point.cost if is_cost and point.cost is not None else point.strong_share


def _figure(*, width: float, height: float) -> tuple[Any, Any]:
    """A figure that belongs to no window and to no global state of matplotlib, and its axes."""
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(width, height), layout="constrained"
    )
    axes = figure.subplots()
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    # Without the date and the version of what drew it, equal figures are equal files.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()
