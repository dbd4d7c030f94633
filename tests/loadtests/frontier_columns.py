"""Invented answers of a weak and a strong tier, and of routers between them, for tests of a frontier's figures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from loadtests.frontier_figures import Columns

NUM = 600
COST_FAST, COST_FULL = 1.0, 5.0
TARGETS = tuple(number / 10 for number in range(1, 10))

Chosen = NDArray[np.bool_]
Router = Callable[[np.random.Generator, float, "Tiers"], Chosen]


class Tiers:
    """What both tiers answer: alike on most prompts, and where they differ, full is right oftener."""

    def __init__(self, generator: np.random.Generator, num: int = NUM) -> None:
        self.kind = generator.choice(["both", "neither", "full", "fast"], size=num, p=[0.2, 0.5, 0.2, 0.1])
        self.fast = np.isin(self.kind, ["both", "fast"]).astype(float)
        self.full = np.isin(self.kind, ["both", "full"]).astype(float)

    def way(self, is_full: Chosen) -> Columns:
        """The columns of a way that sends these prompts to full. Full takes half a second, fast a tenth."""
        is_right = np.where(is_full, self.full, self.fast)
        seconds = np.where(is_full, 0.5, 0.1)
        return Columns(
            is_right=is_right,
            is_full=is_full.astype(float),
            cost=np.where(is_full, COST_FULL, COST_FAST),
            ttft_s=seconds / 2,
            e2e_s=seconds,
            num_output_tokens=np.full(len(is_right), 4.0),
            is_good=is_right,
        )

    def ends(self) -> tuple[Columns, Columns]:
        """Always fast, always full."""
        nowhere = np.zeros(len(self.kind), bool)
        return self.way(nowhere), self.way(~nowhere)


def by_lot(generator: np.random.Generator, target: float, tiers: Tiers) -> Chosen:
    """Knows nothing."""
    return generator.random(len(tiers.kind)) < target


def by_need(generator: np.random.Generator, target: float, tiers: Tiers) -> Chosen:
    """Knows, through noise, where only full is right."""
    need = (tiers.full - tiers.fast) + generator.normal(0, 0.7, len(tiers.kind))
    return need >= np.quantile(need, 1 - target)
