"""What one request puts before the budget controller: its arms, how likely each is to succeed, and what each takes.

What an arm takes is counted in the budget's own metric. The policy's `p − λ·price` uses the same count, so λ is
probability of success per unit of that metric: per share of full-tier requests, per unit of money, or per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What a request takes, or is expected to take, counted in every way that a budget may ask for."""

    cost: float
    """Money, for all of its attempts."""
    engine_seconds: float
    """Seconds that engines work on it, for all of its attempts."""
    full_share: float
    """1 where the strongest tier answers, else 0."""


class Metric(StrEnum):
    """What a budget limits."""

    FULL_SHARE = "full_share"
    """The share of requests that the strongest tier answers."""
    COST_PER_REQUEST = "cost_per_request"
    COST_PER_HOUR = "cost_per_hour"
    ENGINE_SECONDS_PER_REQUEST = "engine_seconds_per_request"

    @property
    def is_per_hour(self) -> bool:
        """Whether the target is for a time rather than for a request."""
        return self is Metric.COST_PER_HOUR

    def price(self, spend: Spend) -> float:
        """What `spend` counts for: the price that λ multiplies, at least 0."""
        if self is Metric.FULL_SHARE:
            return spend.full_share
        if self is Metric.ENGINE_SECONDS_PER_REQUEST:
            return spend.engine_seconds
        return spend.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOffer:
    """One arm of an offer."""

    success_probability: float
    """Calibrated, in [0, 1]."""
    expected: Spend


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The arms that a request could go to. Arms that cannot answer it, or that the client ruled out, are not in it.

    A request whose client chose the arm is an offer of that arm alone: it takes what it takes at any λ.
    """

    arms: tuple[ArmOffer, ...]
    """At least one."""
    quality_floor: float = 0.0
    """The least probability of success that the policy accepts for this request while some arm reaches it."""
    is_curtailed: bool = False
    """An arm that could have answered was down or full, so the offer says nothing about the requests to come."""

    def __post_init__(self) -> None:
        if not self.arms:
            raise ValueError("an offer has at least one arm; a request without one is refused, not offered")
        for arm in self.arms:
            spend = arm.expected
            # Comparisons with NaN are false. Spelt out, because every request passes here.
            is_sane = (
                0 <= arm.success_probability < inf
                and 0 <= spend.cost < inf
                and 0 <= spend.engine_seconds < inf
            )
            if not is_sane:
                raise ValueError("an offer's probabilities, costs and seconds are finite and at least 0")
