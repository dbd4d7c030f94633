"""The watchdog in virtual time: each deadline to the second, and nothing while the reader is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from serving.upstream.deadlines import Deadlines
from serving.upstream.errors import FirstTokenTimeout, IdleTimeout, TotalTimeout, UpstreamError
from serving.upstream.watchdog import Watchdog
from tests import virtual_time

DEADLINES = Deadlines(connect_s=2, first_token_s=120, idle_s=60, total_s=600)


def overdue(
    reads: list[tuple[float, float]], *, deadlines: Deadlines = DEADLINES, age_s: float = 0.0
) -> tuple[type[UpstreamError] | None, float]:
    """The error and its time after the start.

    Args:
        reads: for each, how long the reader is away before it, and how long the bytes then take. After the last the
            watchdog is stopped.
    """

    async def main() -> tuple[type[UpstreamError] | None, float]:
        loop = asyncio.get_running_loop()
        barked: asyncio.Future[UpstreamError] = loop.create_future()
        watchdog = Watchdog(deadlines, arrived_at=loop.time() - age_s, clock=loop.time)
        started = loop.time()
        watchdog.start(barked.set_result)

        async def read() -> None:
            for away_s, bytes_s in reads:
                await asyncio.sleep(away_s)
                watchdog.wait_begins()
                await asyncio.sleep(bytes_s)
                watchdog.wait_ends()
            watchdog.stop()
            await asyncio.sleep(10_000)

        reading = asyncio.create_task(read())
        await asyncio.wait([barked, reading], return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        if not barked.done():
            return None, 0.0
        assert watchdog.error is barked.result()
        return type(barked.result()), loop.time() - started

    return virtual_time.run(main())


@pytest.mark.parametrize(
    ("reads", "error", "at_s"),
    [
        ([(0, 1000)], FirstTokenTimeout, 120),
        ([(0, 119), (0, 1000)], IdleTimeout, 179),
        ([(0, 1), (0, 59), (0, 59), (0, 1000)], IdleTimeout, 179),
        ([(0, 1), (0, 59), (0, 59), (0, 59)], None, 0),
        ([(0, 1), (300, 59), (100, 1000)], IdleTimeout, 520),
        ([(0, 1), *[(0, 30)] * 30], TotalTimeout, 600),
        ([(0, 1), (1000, 1)], TotalTimeout, 600),
        ([(0, 119)], None, 0),
    ],
)
def test_worked_deadlines(
    reads: list[tuple[float, float]], error: type[UpstreamError] | None, at_s: float
) -> None:
    """First token, idle (from the beginning of each wait) and total are overdue when they say, and not before."""
    got, when = overdue(reads)
    assert (got, when) == (error, pytest.approx(at_s, abs=0.01))


def test_shorter_idle_than_first_token_holds_from_the_first_token() -> None:
    """The timer that was set for the first token does not make the idle deadline wait for it."""
    deadlines = Deadlines(connect_s=2, first_token_s=100, idle_s=1, total_s=600)
    assert overdue([(0, 5), (0, 1000)], deadlines=deadlines) == (IdleTimeout, pytest.approx(6, abs=0.01))


def test_total_counts_from_arrival() -> None:
    """What was spent in the queue is gone from the total, and from nothing else."""
    assert overdue([(0, 1000)], age_s=550) == (TotalTimeout, pytest.approx(50, abs=0.01))
    assert overdue([(0, 1000)], age_s=300) == (FirstTokenTimeout, pytest.approx(120, abs=0.01))


def test_reads_set_no_timers() -> None:
    """A thousand chunks within the deadlines cost two timers, one for the first token and one from then on."""

    async def main() -> int:
        loop = asyncio.get_running_loop()
        num_timers = 0
        call_later = loop.call_later

        def count(delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
            nonlocal num_timers
            num_timers += callback == watchdog._fire
            return call_later(delay, callback, *args)

        loop.call_later = count  # type: ignore[method-assign,assignment]
        watchdog = Watchdog(DEADLINES, arrived_at=loop.time(), clock=loop.time)
        watchdog.start(lambda _: None)
        for _ in range(1000):
            watchdog.wait_begins()
            await asyncio.sleep(0.05)
            watchdog.wait_ends()
        watchdog.stop()
        return num_timers

    assert virtual_time.run(main()) == 2
