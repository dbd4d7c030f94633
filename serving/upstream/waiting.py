"""A bounded line of waiters, first come first served, each with its own patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Want = TypeVar("Want", bound=Hashable)
Grant = TypeVar("Grant")


class WaitingLine(Generic[Want, Grant]):
    """Those who wait for a grant, in order of arrival. Belongs to one event loop; owns no clock.

    A waiter who leaves never takes a grant along: one that was made out to it in the same instant is given back.
    """

    def __init__(
        self, *, timeout_s: float, give_back: Callable[[Grant], None], on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called after a waiter came or left."""
        self._timeout_s = timeout_s
        self._give_back = give_back
        self._on_change = on_change
        self._waiting: dict[asyncio.Future[Grant], Want] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, want: Want) -> Grant:
        """Stand in line until `serve` grants the wish.

        Raises:
            TimeoutError: it did not within `timeout_s`.
            Exception: whatever `serve` was told instead of a grant.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Grant] = loop.create_future()
        self._waiting[turn] = want
        timer = loop.call_later(self._timeout_s, self._expire, turn)
        try:
            self._on_change()
            return await turn
        except asyncio.CancelledError:
            # A future that was granted before the cancellation reached us stays granted: nobody else would use it.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back(turn.result())
            raise
        finally:
            timer.cancel()
            self._waiting.pop(turn, None)
            self._on_change()

    def serve(self, try_grant: Callable[[Want], Grant | None]) -> None:
        """Offer to each in order. `try_grant` answers None where that waiter must go on waiting.

        A wish that was refused once is not tried again in the same round, so that a long line costs little. An
        exception that `try_grant` raises is that waiter's answer.
        """
        refused = set()
        for turn, want in tuple(self._waiting.items()):
            if want in refused or turn.done():  # done: cancelled, and not yet awake to leave the line
                continue
            try:
                grant = try_grant(want)
            except Exception as error:  # noqa: BLE001 - handed to the waiter, who raises it
                self._leave(turn).set_exception(error)
                continue
            if grant is None:
                refused.add(want)
            else:
                self._leave(turn).set_result(grant)

    def _leave(self, turn: asyncio.Future[Grant]) -> asyncio.Future[Grant]:
        del self._waiting[turn]
        return turn

    def _expire(self, turn: asyncio.Future[Grant]) -> None:
        if not turn.done():
            self._leave(turn).set_exception(TimeoutError())
