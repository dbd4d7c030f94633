"""A circuit breaker: keeps traffic from a replica that fails, and lets it back by one probe at a time.

    closed ──k failures in a row──▶ open ──its time is over──▶ half-open ──probe succeeds──▶ closed
                                      ▲                            │
                                      └────────probe fails─────────┘   (open for twice as long)

A pure state machine: time is a parameter, and it owns no timer. An attempt is `begin` … `end`; the ticket between them
tells attempts that began before the last change of state, whose news is old.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class BreakerState(StrEnum):
    """Where the breaker stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Health(Enum):
    """What an attempt says about its replica."""

    SUCCESS = 1
    NEUTRAL = 0
    """Nothing: a client's mistake, backpressure, a cancelled request. It neither resets a streak nor adds to it."""
    FAILURE = -1


@dataclass(frozen=True, slots=True)
class Ticket:
    """One attempt's passage."""

    epoch: int
    is_probe: bool


class Breaker:
    """One replica's breaker. Times are seconds on any clock that never goes back."""

    def __init__(self, *, max_failures: int = 5, open_s: float = 1.0, max_open_s: float = 60.0) -> None:
        self._max_failures = max_failures
        self._open_s = open_s
        self._max_open_s = max_open_s
        self._num_failures = 0
        self._num_trips = 0
        """Since it last closed; each doubles the time it stays open."""
        self._epoch = 0
        self._open_until: float | None = None
        """None while closed."""
        self._has_probe = False

    @property
    def open_until(self) -> float | None:
        """When the first probe may go; None while closed."""
        return self._open_until

    def state(self, now: float) -> BreakerState:
        """Closed, open or half-open at `now`."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN

    def allows(self, now: float) -> bool:
        """Whether an attempt should begin: closed, or half-open without a probe under way."""
        state = self.state(now)
        return state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and not self._has_probe)

    def begin(self, now: float) -> Ticket:
        """Take part. Never refuses: a pool whose every breaker is open must send requests somewhere."""
        is_probe = not self._has_probe and self.state(now) is BreakerState.HALF_OPEN
        self._has_probe |= is_probe
        return Ticket(self._epoch, is_probe)

    def end(self, ticket: Ticket, health: Health, now: float) -> None:
        """Hear how the attempt went. Every ticket must come back, else a probe is never freed."""
        if ticket.epoch != self._epoch:
            return  # from before the last change: it says how the replica was, not how it is
        if ticket.is_probe:
            self._has_probe = False
        if health is Health.SUCCESS:
            self._hear_success()
        elif health is Health.FAILURE:
            self._hear_failure(ticket, now)

    def _hear_success(self) -> None:
        self._num_failures = 0
        if self._open_until is not None:
            self._open_until = None
            self._num_trips = 0
            self._turn()

    def _hear_failure(self, ticket: Ticket, now: float) -> None:
        if self._open_until is None:
            self._num_failures += 1
            if self._num_failures >= self._max_failures:
                self._trip(now)
        elif ticket.is_probe:
            self._trip(now)
        else:
            # Sent although open, and still failing: the time of rest begins anew, but does not grow.
            self._open_until = max(self._open_until, now + self._current_open_s())

    def _trip(self, now: float) -> None:
        self._num_trips += 1
        until = now + self._current_open_s()
        self._open_until = until if self._open_until is None else max(self._open_until, until)
        self._turn()

    def _current_open_s(self) -> float:
        # The exponent is bounded, lest a replica that is down for a year overflow a float.
        return min(self._max_open_s, self._open_s * 2.0 ** min(self._num_trips - 1, 64))

    def _turn(self) -> None:
        self._epoch += 1
        self._num_failures = 0
        self._has_probe = False
