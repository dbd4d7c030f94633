"""How fast requests come, and by how much they turn out dearer than foreseen: two estimates in constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, expm1, sqrt
from typing import Final

FAST_S: Final = 10.0
SLOW_S: Final = 60.0
"""Time constants of the two rates: one sees a burst within seconds, the other is steady."""

MIN_AGE_S: Final = 1.0
PRIOR_REQUESTS: Final = 20.0
"""Weight of the belief that prices are right, in requests."""
MAX_RATIO: Final = 5.0
"""Beyond it, either way, what is wrong is not a price."""


@dataclass(slots=True)
class DecayedRate:
    """Amount per second, in which what is `time_constant_s` old counts 1/e of what is new."""

    time_constant_s: float
    began: float | None = None
    at: float = 0.0
    amount: float = 0.0

    def observe(self, now: float, amount: float) -> None:
        """Add an amount at `now`."""
        if self.began is None:
            self.began = self.at = now
        self._decay(now)
        self.amount += amount

    def per_second(self, now: float) -> float:
        """The rate at `now`, unbiased from the first second on; 0 before anything was seen."""
        if self.began is None:
            return 0.0
        self._decay(now)
        age = max(now - self.began, MIN_AGE_S)
        return self.amount / (self.time_constant_s * -expm1(-age / self.time_constant_s))

    def _decay(self, now: float) -> None:
        passed = max(0.0, now - self.at)
        self.amount *= exp(-passed / self.time_constant_s)
        self.at += passed

    def move(self, shift_s: float) -> None:
        """Go over to a clock that reads `shift_s` more."""
        self.at += shift_s
        if self.began is not None:
            self.began += shift_s


@dataclass(slots=True)
class ArrivalRate:
    """Requests per second: the steady rate, or a burst's as soon as chance no longer explains it."""

    slow: DecayedRate = field(default_factory=lambda: DecayedRate(SLOW_S))
    fast: DecayedRate = field(default_factory=lambda: DecayedRate(FAST_S))

    def observe(self, now: float) -> None:
        """A request came."""
        self.slow.observe(now, 1.0)
        self.fast.observe(now, 1.0)

    def per_second(self, now: float) -> float:
        """The rate at `now`. The standard deviation of the fast rate r is √(r / 2·FAST_S), for Poisson arrivals."""
        fast = self.fast.per_second(now)
        return max(self.slow.per_second(now), fast - 2 * sqrt(fast / (2 * FAST_S)))


@dataclass(slots=True)
class Mispricing:
    """Realised over expected, over about the last `num_requests` that ended, drawn towards 1."""

    num_requests: float
    realised: float = 0.0
    expected: float = 0.0
    weight: float = 0.0

    def observe(self, *, expected: float, realised: float) -> None:
        """A request ended."""
        keep = 1 - 1 / self.num_requests
        self.realised = self.realised * keep + realised
        self.expected = self.expected * keep + expected
        self.weight = self.weight * keep + 1

    @property
    def mean(self) -> float | None:
        """Mean of what requests took; None before the first ended."""
        return self.realised / self.weight if self.weight else None

    def ratio(self, usual: float) -> float:
        """By how much to multiply expectations; `usual` is what a request takes when nothing was expected."""
        prior = PRIOR_REQUESTS * (self.expected / self.weight if self.expected else usual)
        if not prior:
            return 1.0
        ratio = (self.realised + prior) / (self.expected + prior)
        return min(MAX_RATIO, max(1 / MAX_RATIO, ratio))
