"""Calibration over time: how far forecasts and outcomes were apart in each period, in constant memory.

A period's expected calibration error is that of `router.calibration`, over bins of equal width. Part of it is chance,
the more the fewer outcomes: what perfectly calibrated forecasts would show is kept beside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any, Final

from router.calibration import NUM_BINS

PERIOD_S: Final = 3600.0
MAX_PERIODS: Final = 168
"""A week of hours."""


@dataclass(slots=True, kw_only=True)
class CalibrationPeriod:
    """The sums of one period, by bin."""

    began: float
    nums: list[int] = field(default_factory=lambda: [0] * NUM_BINS)
    probabilities: list[float] = field(default_factory=lambda: [0.0] * NUM_BINS)
    successes: list[float] = field(default_factory=lambda: [0.0] * NUM_BINS)

    def add(self, probability: float, success: float) -> None:
        """Take an outcome in."""
        place = min(int(probability * NUM_BINS), NUM_BINS - 1)
        self.nums[place] += 1
        self.probabilities[place] += probability
        self.successes[place] += success

    def take_back(self, probability: float, success: float) -> None:
        """Leave an outcome out again that was taken in."""
        place = min(int(probability * NUM_BINS), NUM_BINS - 1)
        self.nums[place] -= 1
        self.probabilities[place] -= probability
        self.successes[place] -= success

    def plain(self) -> dict[str, Any]:
        """Its members. A week of them is copied while requests wait, and `asdict` takes ten times as long."""
        return {
            "began": self.began,
            "nums": self.nums.copy(),
            "probabilities": self.probabilities.copy(),
            "successes": self.successes.copy(),
        }

    @property
    def num_outcomes(self) -> int:
        """Outcomes of the period."""
        return sum(self.nums)

    @property
    def error(self) -> float | None:
        """Σ share of bin · |mean probability − mean success|; None without outcomes."""
        if not self.num_outcomes:
            return None
        gaps = (abs(p - s) for p, s in zip(self.probabilities, self.successes, strict=True))
        return sum(gaps) / self.num_outcomes

    @property
    def noise(self) -> float | None:
        """The error that calibrated forecasts would show, about: for a normal gap, √(2/π) of its deviation."""
        if not self.num_outcomes:
            return None
        deviations = (
            sqrt(total * (1 - total / num))
            for num, total in zip(self.nums, self.probabilities, strict=True)
            if num
        )
        return sqrt(2 / pi) * sum(deviations) / self.num_outcomes


class CalibrationLog:
    """The last periods that saw an outcome, oldest first."""

    def __init__(self, *, period_s: float = PERIOD_S, max_periods: int = MAX_PERIODS) -> None:
        self._period_s = period_s
        self.periods: deque[CalibrationPeriod] = deque(maxlen=max_periods)

    def observe(self, now: float, *, probability: float, success: float) -> None:
        """An outcome in [0, 1] became known, and what was forecast of it; `now` never runs back."""
        began = now // self._period_s * self._period_s
        if not self.periods or self.periods[-1].began < began:
            self.periods.append(CalibrationPeriod(began=began))
        self.periods[-1].add(probability, success)

    def plain(self) -> list[dict[str, Any]]:
        """What outlives a restart, as numbers and lists."""
        return [period.plain() for period in self.periods]

    def restore(self, plain: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what `plain` described."""
        self.periods.extend(CalibrationPeriod(**period) for period in plain)
