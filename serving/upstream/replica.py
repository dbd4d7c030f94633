"""One replica of a tier: a server at a URL, how much it carries, and how well it has done lately."""

from __future__ import annotations

import asyncio

from serving.engines.base import Endpoint
from serving.ledger.records import Outcome
from serving.upstream.breaker import Breaker, BreakerState, Health, Ticket

_HEALTH = {Outcome.SUCCESS: Health.SUCCESS, Outcome.FAILURE: Health.FAILURE}
"""Whatever is missing says nothing of the replica: 4xx, backpressure, a client that left."""


class Replica:
    """Local counts are the truth of its load. `Pool` alone begins and ends attempts on it."""

    def __init__(self, endpoint: Endpoint, model_id: str, max_in_flight: int, breaker: Breaker) -> None:
        self.endpoint = endpoint
        self.model_id = model_id
        """What must stand in a request's `model`."""
        self.max_in_flight = max_in_flight
        self.is_draining = False
        """Takes no new requests; those it has go on."""
        self._breaker = breaker
        self._rests_until = 0.0
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        return f"<Replica {self.url} {self._in_flight}/{self.max_in_flight}>"

    @property
    def url(self) -> str:
        """Its address, which is its name."""
        return self.endpoint.url

    @property
    def in_flight(self) -> int:
        """Requests that it is answering."""
        return self._in_flight

    @property
    def has_room(self) -> bool:
        """Whether one more request fits."""
        return self._in_flight < self.max_in_flight

    def state(self, now: float) -> BreakerState:
        """Its breaker's state."""
        return self._breaker.state(now)

    def allows(self, now: float) -> bool:
        """Whether it should be asked: its breaker lets a request pass, and it did not ask for rest."""
        return now >= self._rests_until and self._breaker.allows(now)

    def allows_at(self, now: float) -> float | None:
        """When time alone will allow it again; None where it is not time that it lacks."""
        until = max(self._rests_until, self._breaker.open_until or 0.0)
        return until if until > now else None

    def rest(self, until: float) -> None:
        """Ask it no more before `until`, unless there is nobody else. A later wish never shortens it."""
        self._rests_until = max(self._rests_until, until)

    def begin(self, now: float) -> Ticket:
        """One more request in flight."""
        self._in_flight += 1
        self._idle.clear()
        return self._breaker.begin(now)

    def end(self, ticket: Ticket, outcome: Outcome, now: float, *, is_replica_fault: bool = True) -> None:
        """One request less, and what its end says of the replica's health."""
        self._in_flight -= 1
        if self._in_flight == 0:
            self._idle.set()
        health = _HEALTH.get(outcome, Health.NEUTRAL)
        if health is Health.FAILURE and not is_replica_fault:
            health = Health.NEUTRAL
        self._breaker.end(ticket, health, now)

    async def wait_idle(self) -> None:
        """Return once nothing is in flight. After `Pool.remove` that is final."""
        await self._idle.wait()
