"""What shadow runs may cost in an hour: reserved before a run begins, settled when it has ended. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import floor, fsum
from typing import Final

HOUR_S: Final = 3600.0
GRAIN_S: Final = 1.0
"""What is spent within such a step of the clock is kept as one entry, dated at the step's end."""


@dataclass(slots=True, eq=False)
class Reservation:
    """Money set aside for one run."""

    cost: float


class HourlyCap:
    """A cap on the cost of any hour, what is reserved included. Time is a parameter, on a clock that never goes back.

    Args:
        max_cost: the cap. It holds exactly where no run takes more than was reserved for it; where one does, nothing
            is begun until the hour has room again.
    """

    def __init__(self, max_cost: float) -> None:
        self._max_cost = max_cost
        self._reserved: set[Reservation] = set()
        self._spent: deque[tuple[float, float]] = deque()

    def reserve(self, cost: float, now: float) -> Reservation | None:
        """Set `cost` aside; None, and nothing set aside, where so much is not left."""
        while self._spent and self._spent[0][0] <= now - HOUR_S:
            self._spent.popleft()
        taken = fsum([*(spent for _, spent in self._spent), *(held.cost for held in self._reserved), cost])
        if taken > self._max_cost:
            return None
        reservation = Reservation(cost)
        self._reserved.add(reservation)
        return reservation

    def settle(self, reservation: Reservation, cost: float, now: float) -> None:
        """The run has ended and took `cost`, whatever had been set aside for it."""
        self._reserved.remove(reservation)
        if not cost:
            return
        at = GRAIN_S * (floor(now / GRAIN_S) + 1)
        if self._spent and self._spent[-1][0] == at:
            cost += self._spent.pop()[1]
        self._spent.append((at, cost))
