"""The terms of a budget: what to hold, how hard, and who sets λ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import Final

from router.offer import Metric
from router.plan import Winner


class Mode(StrEnum):
    """Who sets λ."""

    AUTO = "auto"
    """The controller."""
    FROZEN = "frozen"
    """Nobody: it stays where it is."""
    DRY_RUN = "dry_run"
    """The configuration; the controller computes beside it what it would do."""
    MANUAL = "manual"
    """The configuration."""


SPREAD: Final = 0.1
"""The band of λ, by default."""
CONSERVATIVE_ALLOWANCE: Final = 1.5
"""What doubt about all forecasts may take: the target times this; where nothing is held, λ is divided by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """What to hold, and how hard. The defaults below `target` were tuned in simulation (`router.simulate`)."""

    metric: Metric
    target: float
    """In the metric's unit; of this process's own traffic."""
    quality_floor: float = 0.0
    """The mean calibrated probability of success that the winner below may not let be undercut."""
    winner: Winner = Winner.QUALITY_FLOOR
    mode: Mode = Mode.AUTO
    price_of_compute: float = 0.0
    """λ to begin with; in `manual` and `dry_run`, the λ in force. Per unit of the metric."""
    min_price_of_compute: float = 0.0
    max_price_of_compute: float = inf
    conservative_allowance: float = CONSERVATIVE_ALLOWANCE
    """In conservative mode the target is this many times itself, at least 1: doubt is paid for, within a limit."""
    max_offers: int = 300
    min_span_s: float = 60.0
    """The window: so many offers, thinned so that it spans at least so long."""
    repay_requests: float = 100.0
    repay_s: float = 20.0
    """Debt is repaid over so many requests, or over those of so many seconds if they are more."""
    max_correction_share: float = 0.4
    """The debt moves the target of a request by no more than this share of it."""
    max_log_step_per_s: float = 0.2
    """How far ln λ may move in a second."""
    spread: float = SPREAD
    """Relative width of the band from which each request draws its λ (`router.staircase.banded`)."""

    def __post_init__(self) -> None:
        for name, is_right, rule in (
            ("target", isfinite(self.target) and self.target >= 0, "a finite number, at least 0"),
            (
                "target",
                self.metric is not Metric.FULL_SHARE or self.target <= 1,
                "at most 1 for `full_share`",
            ),
            ("quality_floor", 0 <= self.quality_floor <= 1, "from 0 to 1"),
            (
                "price_of_compute",
                isfinite(self.price_of_compute) and self.price_of_compute >= 0,
                "at least 0",
            ),
            (
                "min_price_of_compute",
                0 <= self.min_price_of_compute <= self.max_price_of_compute,
                "from 0 to `max_price_of_compute`",
            ),
            ("conservative_allowance", self.conservative_allowance >= 1, "at least 1"),
            ("max_offers", self.max_offers >= 1, "at least 1"),
            ("repay_requests", self.repay_requests >= 1, "at least 1"),
            ("max_log_step_per_s", self.max_log_step_per_s > 0, "more than 0"),
            ("spread", 0 < self.spread <= 1, "more than 0 and at most 1"),
        ):
            if not is_right:
                raise ValueError(f"`{name}` is {getattr(self, name)}; it must be {rule}")
