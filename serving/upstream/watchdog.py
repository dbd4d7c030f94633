"""The clock of one attempt: a single timer that notices when the first token, the next bytes or the whole are overdue.

It is not set anew for each read. It fires when the deadline that was nearest would have passed, finds that bytes came
meanwhile, and goes back to sleep: a read costs a look at the clock and two attribute writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from serving.upstream.deadlines import Deadlines
from serving.upstream.errors import FirstTokenTimeout, IdleTimeout, TotalTimeout, UpstreamError


class Watchdog:
    """Watches one attempt. Belongs to one event loop."""

    def __init__(self, deadlines: Deadlines, *, arrived_at: float, clock: Callable[[], float]) -> None:
        self._deadlines = deadlines
        self._total_at = arrived_at + deadlines.total_s
        self._clock = clock
        self._on_overdue: Callable[[UpstreamError], None] | None = None
        self._limit_s = deadlines.first_token_s
        self._has_begun = False
        self._waiting_since: float | None = None
        """None while our own reader is busy elsewhere, which no replica is to blame for."""
        self._timer: asyncio.TimerHandle | None = None
        self.error: UpstreamError | None = None
        """What was overdue, once it is."""

    def left_s(self) -> float:
        """Seconds until the total is over; not positive when it is."""
        return self._total_at - self._clock()

    def start(self, on_overdue: Callable[[UpstreamError], None]) -> None:
        """The request is being sent: the wait for the first token begins.

        `on_overdue` is called once, with the error, unless `stop` comes before.
        """
        self._on_overdue = on_overdue
        self._waiting_since = self._clock()
        self._rearm()

    def wait_begins(self) -> None:
        """Our reader wants bytes."""
        if self._waiting_since is None:
            self._waiting_since = self._clock()

    def wait_ends(self) -> None:
        """Bytes came."""
        self._waiting_since = None
        if not self._has_begun:
            self._has_begun = True
            self._limit_s = self._deadlines.idle_s
            self._rearm()

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_overdue = None

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = self._clock()
        since = now if self._waiting_since is None else self._waiting_since
        delay_s = min(self._total_at, since + self._limit_s) - now
        # A loop's timer may go off a moment early (uvloop rounds to milliseconds): never ask for less than one.
        self._timer = asyncio.get_running_loop().call_later(max(delay_s, 0.001), self._fire)

    def _fire(self) -> None:
        now = self._clock()
        if now >= self._total_at:
            self.error = TotalTimeout()
        elif self._waiting_since is not None and now >= self._waiting_since + self._limit_s:
            self.error = IdleTimeout() if self._has_begun else FirstTokenTimeout()
        if self.error is None:
            self._rearm()
        elif self._on_overdue is not None:
            self._on_overdue(self.error)
