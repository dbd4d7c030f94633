"""A tier's replicas and the choice among them: least in flight of two random ones, and a bounded line before them.

    async with pool.lease() as lease:
        …talk to lease.replica.endpoint…
        lease.outcome = Outcome.SUCCESS

However the block is left, the replica's room comes back and its breaker hears what the end says of it. Nobody waits
while a replica has room for them, and nobody is overtaken.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from serving.engines.base import Endpoint
from serving.ledger.records import Outcome
from serving.upstream.breaker import Breaker, Ticket
from serving.upstream.errors import NoReplica, Overloaded, UpstreamError
from serving.upstream.replica import Replica
from serving.upstream.service_time import ServiceTime
from serving.upstream.waiting import WaitingLine

_Passage = tuple[Replica, Ticket]


class Lease:
    """The right to send one request to one replica."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.outcome: Outcome | None = None
        """How the attempt ended, to be set inside the block. An upstream's error or a cancellation that leaves the
        block overrules it; without either, and unset, it counts as cancelled."""
        self.retry_after_s: float | None = None
        """To be set from an upstream's `retry-after`: the replica is left alone for so long if another can answer."""


class Pool:
    """The replicas of one tier. Belongs to one event loop."""

    def __init__(
        self,
        tier: str,
        *,
        max_queue: int,
        queue_timeout_s: float,
        clock: Callable[[], float],
        rng: random.Random,
        on_change: Callable[[Pool], None] | None = None,
        new_breaker: Callable[[], Breaker] = Breaker,
    ) -> None:
        """`on_change` is called after each change of `in_flight`, `num_waiting` or `replicas`."""
        self.tier = tier
        self._max_queue = max_queue
        self._queue_timeout_s = queue_timeout_s
        self._clock = clock
        self._rng = rng
        self._on_change = on_change
        self._new_breaker = new_breaker
        self._replicas: dict[str, Replica] = {}
        self._draining: set[Replica] = set()
        self._line: WaitingLine[frozenset[str], _Passage] = WaitingLine(
            timeout_s=queue_timeout_s, give_back=self._give_back, on_change=self._changed
        )
        self._service_time = ServiceTime()
        self._wake: asyncio.TimerHandle | None = None

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """All that take requests or still answer some."""
        return (*self._replicas.values(), *self._draining)

    @property
    def in_flight(self) -> int:
        """Requests that are being answered, by draining replicas too."""
        return sum(replica.in_flight for replica in self.replicas)

    @property
    def num_waiting(self) -> int:
        """Requests in line for a replica."""
        return len(self._line)

    @property
    def num_free(self) -> int:
        """Requests that would find a place at a replica in health at once; 0 while others wait for one."""
        if self._line:
            return 0
        now = self._clock()
        return sum(r.max_in_flight - r.in_flight for r in self._replicas.values() if r.allows(now))

    @property
    def is_available(self) -> bool:
        """Whether a replica in health takes requests. Where not, `lease` still tries what there is."""
        now = self._clock()
        return any(replica.allows(now) for replica in self._replicas.values())

    def add(self, endpoint: Endpoint, model_id: str, max_in_flight: int) -> Replica:
        """Take a replica in; those who wait are served by it at once.

        Raises:
            ValueError: the URL is here already. One that only drains is not: the new one is another.
        """
        if endpoint.url in self._replicas:
            raise ValueError(f"{endpoint.url} is in the {self.tier} pool already; remove it first")
        replica = Replica(endpoint, model_id, max_in_flight, self._new_breaker())
        self._replicas[endpoint.url] = replica
        self._serve_line()
        self._changed()
        return replica

    def remove(self, url: str) -> Replica | None:
        """Give a replica no new requests; those in flight go on (`Replica.wait_idle`). None for an unknown URL."""
        replica = self._replicas.pop(url, None)
        if replica is None:
            return None
        replica.is_draining = True
        if replica.in_flight:
            self._draining.add(replica)
        self._serve_line()  # whoever waits for this one alone must hear that it is gone
        self._changed()
        return replica

    @asynccontextmanager
    async def lease(self, *, exclude: frozenset[str] = frozenset()) -> AsyncIterator[Lease]:
        """A replica for one request, after a wait in line where none has room.

        Args:
            exclude: URLs that are not to be chosen, since this request has failed there.

        Raises:
            Overloaded: the line is full, or the wait was too long.
            NoReplica: there is none but the excluded.
        """
        replica, ticket = await self._acquire(exclude)
        begun_at = self._clock()
        self._service_time.begin(begun_at)
        lease = Lease(replica)
        is_replica_fault = True
        try:
            yield lease
        except asyncio.CancelledError:
            lease.outcome = Outcome.CANCELLED
            raise
        except UpstreamError as error:
            lease.outcome, is_replica_fault = error.outcome, error.is_replica_fault
            raise
        finally:
            now = self._clock()
            self._service_time.end(begun_at, now)
            lease.outcome = lease.outcome or Outcome.CANCELLED
            if lease.retry_after_s is not None:
                replica.rest(now + lease.retry_after_s)
            replica.end(ticket, lease.outcome, now, is_replica_fault=is_replica_fault)
            self._room_came_back(replica)

    async def _acquire(self, exclude: frozenset[str]) -> _Passage:
        if self._line:
            self._serve_line()  # time alone may have made room: those in line come first
        passage = self._try_pass(exclude)
        if passage is not None:
            self._changed()
            return passage
        if len(self._line) >= self._max_queue:
            raise Overloaded(
                "every replica is busy and the queue is full", retry_after_s=self._expected_wait_s()
            )
        self._watch_for_return()
        try:
            return await self._line.wait(exclude)
        except TimeoutError:
            message = f"every replica stayed busy for {self._queue_timeout_s:g} s"
            raise Overloaded(message, retry_after_s=self._expected_wait_s()) from None

    def _try_pass(self, exclude: frozenset[str]) -> _Passage | None:
        """Begin on a replica; None where every suitable one is full."""
        now = self._clock()
        replica = self._choose(self._suitable(exclude, now))
        return None if replica is None else (replica, replica.begin(now))

    def _suitable(self, exclude: frozenset[str], now: float) -> list[Replica]:
        candidates = [replica for url, replica in self._replicas.items() if url not in exclude]
        if not candidates:
            raise NoReplica(f"no replica of the {self.tier} tier is running")
        # Panic: where nobody is in health, trying is better than certain refusal.
        return [replica for replica in candidates if replica.allows(now)] or candidates

    def _choose(self, suitable: list[Replica]) -> Replica | None:
        """Power of two choices: nearly as even as the least of all, without every gateway choosing the same one."""
        free = [replica for replica in suitable if replica.has_room]
        if len(free) < 2:
            return free[0] if free else None
        first = self._rng.randrange(len(free))
        second = (first + self._rng.randrange(1, len(free))) % len(free)
        return min(free[first], free[second], key=lambda replica: replica.in_flight)

    def _give_back(self, passage: _Passage) -> None:
        replica, ticket = passage
        replica.end(ticket, Outcome.CANCELLED, self._clock())
        self._room_came_back(replica)

    def _room_came_back(self, replica: Replica) -> None:
        if replica.is_draining and not replica.in_flight:
            self._draining.discard(replica)
        self._serve_line()
        self._changed()

    def _serve_line(self) -> None:
        if self._line:
            self._line.serve(self._try_pass)
            self._watch_for_return()

    def _watch_for_return(self) -> None:
        """See to it that those in line are served when a breaker's time, or a replica's rest, is over."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        now = self._clock()
        returns = [replica.allows_at(now) for replica in self._replicas.values() if replica.has_room]
        soonest = min((at for at in returns if at is not None), default=None)
        if soonest is not None:
            self._wake = asyncio.get_running_loop().call_later(soonest - now, self._serve_line)

    def _expected_wait_s(self) -> float:
        """Until everybody in line now has been served: what a client should wait before it comes back."""
        service_s = self._service_time.estimate(self._clock())
        capacity = sum(replica.max_in_flight for replica in self._replicas.values())
        if service_s is None or not capacity:
            return self._queue_timeout_s
        return (len(self._line) + 1) * service_s / capacity

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change(self)
