"""Whether answers succeed less often than forecast: a sequential test that may be looked at after every outcome.

For each of a few stakes b a gambler bets against the forecasts: on an outcome y in [0, 1] of forecast p the stake is
multiplied by `1 + b·(p − tolerance − y)`, which gains nothing on average while forecasts are right, or too low, or too
high by no more than the tolerance, whatever else holds. The Shiryaev–Roberts sum `M ← (M + 1)·factor`, averaged over
the stakes, therefore grows by at most 1 an outcome on average, and so the mean number of outcomes until it first
reaches A is at least A (e-detectors: Shin, Ramdas, Rinaldo, arXiv 2203.03532; the bets: Waudby-Smith, Ramdas,
arXiv 2010.09686). That holds for the sum over several streams too, so arms can be watched side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

STAKES: Final = (0.1, 0.2, 0.4, 0.8)
"""A small one finds a small loss, a large one a large loss soon. All below 1, so that no factor is negative."""


@dataclass(slots=True, kw_only=True)
class OutcomeTest:
    """One arm's outcomes against its forecasts."""

    tolerance: float
    """By how much success may fall short of the forecast, in probability."""
    sums: list[float] = field(default_factory=lambda: [0.0] * len(STAKES))
    num_outcomes: int = 0
    shortfall: float = 0.0
    """Forecast less outcome, summed over the outcomes."""

    def observe(self, probability: float, success: float) -> None:
        """Take an outcome in; it was forecast before it was known."""
        edge = probability - self.tolerance - success
        self.sums = [(total + 1) * (1 + stake * edge) for total, stake in zip(self.sums, STAKES, strict=True)]
        self.num_outcomes += 1
        self.shortfall += probability - success

    @property
    def evidence(self) -> float:
        """The sum M. While the forecasts hold, it reaches A after A outcomes on average, or later."""
        return sum(self.sums) / len(self.sums)

    @property
    def mean_shortfall(self) -> float:
        """Forecast less outcome, on average; 0 before the first outcome."""
        return self.shortfall / self.num_outcomes if self.num_outcomes else 0.0

    def restart(self) -> None:
        """Forget everything."""
        self.sums = [0.0] * len(STAKES)
        self.num_outcomes, self.shortfall = 0, 0.0
