"""The deadline for connecting, in time that the event loop had for it.

A connection that the kernel has made long ago is not there until the loop looks. Where the loop does not get to run, as
on a machine that is starved of CPU, a clock on the wall would end every connection that is under way, and have the
replica blamed for what it had no part in. So the deadline is a number of looks at equal distances: a pause of the loop
counts as one of them, however long it is.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

NUM_LOOKS: Final = 10
"""Connecting takes the loop half as many turns."""


class ConnectDeadline:
    """Ends the block that it is entered by, with `TimeoutError`, unless it is stopped before. Belongs to one loop."""

    def __init__(self, limit_s: float) -> None:
        self._gap_s = limit_s / NUM_LOOKS
        self._num_looks = 0
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._arm()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await self._timeout.__aexit__(kind, error, trace)

    def stop(self) -> None:
        """There is a connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._timeout.expired():
            self._timeout.reschedule(None)

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._gap_s, self._look)

    def _look(self) -> None:
        self._num_looks += 1
        if self._num_looks < NUM_LOOKS:
            self._arm()
        else:
            self._timeout.reschedule(asyncio.get_running_loop().time())
