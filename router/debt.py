"""What was taken above the target and is still to be repaid, and how far it may move the target of the next requests.

Two bounds keep it from winding up. It moves the target of a request by no more than a share of it; and it is confined
to what λ can repay: what clients, outages or a quality floor took, that no λ could have spared, is not owed. A target
for an hour differs: what a burst took is owed to the quiet time after it, and what a quiet time left is there for the
next burst, whatever λ can do at the moment. Both are kept for longer, and not for ever: an hour's silence does not
double the next hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KEPT_S: Final = 300.0
"""A debt or a credit towards an hourly target is at most the allowed share of so many seconds of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What bounds the debt at one tick. Amounts are in the metric's unit."""

    per_request: float
    """The target of a request."""
    horizon: float
    """Requests over which debt is repaid."""
    max_correction_share: float
    per_second: float | None
    """The target of a second, where the target is for a time."""

    @property
    def allowance(self) -> float:
        """The most by which the target of a request may be moved."""
        return self.max_correction_share * self.per_request

    @property
    def most(self) -> float:
        """The greatest debt, or credit, that is kept."""
        if self.per_second is None:
            return self.allowance * self.horizon
        return max(self.allowance * self.horizon, self.max_correction_share * self.per_second * KEPT_S)


@dataclass(slots=True)
class Debt:
    """The account. Negative for a credit."""

    owed: float = 0.0

    def correction(self, reach: Reach) -> float:
        """What to take off the target of a request, once the account is within bounds."""
        self.owed = min(max(self.owed, -reach.most), reach.most)
        return min(max(self.owed / reach.horizon, -reach.allowance), reach.allowance)

    def confine(self, reach: Reach, *, least_price: float, greatest_price: float) -> None:
        """Let go of what lies beyond λ, whose mean price of a request reaches from the least to the greatest.

        Towards an hourly target nothing is: other traffic, at the same prices, can repay.
        """
        if reach.per_second is None:
            self.owed = max(self.owed, min(0.0, (reach.per_request - greatest_price) * reach.horizon))
            self.owed = min(self.owed, max(0.0, (reach.per_request - least_price) * reach.horizon))
