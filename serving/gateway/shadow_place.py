"""Where shadow runs may be: at tiers that have a place to spare, until a client comes for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from serving.gateway.fleet import Fleet, Tier


class NoPlaceError(Exception):
    """The tier has to do: a shadow run does not wait in line."""


class Places:
    """The places of all tiers, and which of them are ours.

    Args:
        only_when_idle: take none beside a client's request.
        num_spared: places at a tier that are never taken.
    """

    def __init__(self, fleet: Fleet, *, only_when_idle: bool, num_spared: int) -> None:
        self._fleet = fleet
        self._only_when_idle = only_when_idle
        self._num_spared = num_spared
        self._num_ours: Counter[str] = Counter()
        """Requests of ours that are with each tier."""

    def is_free(self, tier: str) -> bool:
        """Whether a request of ours could begin at `tier` now."""
        has_room = self._fleet[tier].pool.num_free > self._num_spared
        return has_room and not (self._only_when_idle and self._num_clients_beside(tier))

    def is_in_the_way(self, tier: str) -> bool:
        """Whether a request of ours at `tier` has to end."""
        if self._only_when_idle:
            return self._num_clients_beside(tier) > 0
        return self._fleet[tier].pool.num_waiting > 0

    @contextmanager
    def taken(self, tier: str) -> Iterator[None]:
        """Count a request of ours for the time of the block, which has to lease a replica before it awaits anything.

        Raises:
            NoPlaceError: there is no place for it.
        """
        if not self.is_free(tier):
            raise NoPlaceError
        self._num_ours[tier] += 1
        try:
            yield
        finally:
            self._num_ours[tier] -= 1

    def _num_clients_beside(self, tier: str) -> int:
        """Clients' requests at the tier, or at any whose engine shares the machine with it."""
        beside = [other for other in self._fleet if other.name == tier or self._share_machine(other, tier)]
        at_all = sum(other.pool.in_flight + other.pool.num_waiting for other in beside)
        return at_all - sum(self._num_ours[other.name] for other in beside)

    def _share_machine(self, other: Tier, tier: str) -> bool:
        return other.is_supervised and self._fleet[tier].is_supervised
