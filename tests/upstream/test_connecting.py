"""The deadline for connecting: kept where nobody answers, and not run down by a loop that does not get to run."""

from __future__ import annotations

import asyncio
import time

import pytest

from serving.engines.base import Endpoint
from serving.upstream.client import UpstreamClient
from serving.upstream.connecting import ConnectDeadline
from serving.upstream.deadlines import Deadlines
from tests import virtual_time
from tests.fakes import MockUpstream

DEADLINES = Deadlines(connect_s=0.1, first_token_s=5, idle_s=5, total_s=20)


def test_it_ends_what_takes_longer() -> None:
    """A block that waits longer gets `TimeoutError` at the limit."""

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            async with ConnectDeadline(2.0):
                await asyncio.sleep(10)
        return asyncio.get_running_loop().time() - began

    assert virtual_time.run(main()) == pytest.approx(2.0)


@pytest.mark.parametrize("stops", [True, False])
def test_it_ends_nothing_else(stops: bool) -> None:
    """Once there is a connection, or the block is left, it ends nothing any more."""

    async def main() -> bool:
        deadline = ConnectDeadline(2.0)
        async with deadline:
            await asyncio.sleep(1)
            if stops:
                deadline.stop()
                await asyncio.sleep(10)
        await asyncio.sleep(10)
        return True

    assert virtual_time.run(main())


async def test_a_cancellation_stays_one() -> None:
    """Who is cancelled while it runs hears of that and of no timeout."""

    async def connect() -> None:
        async with ConnectDeadline(5.0):
            await asyncio.sleep(10)

    task = asyncio.create_task(connect())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_pause_of_the_loop_is_no_fault_of_the_replica() -> None:
    """Connections that the kernel has made are used, however long the loop was kept from looking.

    Where three hundred clients came at once to a machine without CPU to spare, every connection that was under way ran
    out of time on the wall's clock, the breaker opened, and all of them were answered 502.
    """
    async with MockUpstream() as upstream, UpstreamClient() as client:

        async def ask() -> int:
            endpoint = Endpoint(url=upstream.url)
            post = client.post(
                endpoint, "/v1/chat/completions", b'{"model": "m"}', {}, DEADLINES, time.monotonic()
            )
            async with post as response:
                await response.read(2**20)
                return response.status

        asking = asyncio.create_task(ask())
        for _ in range(6):
            await asyncio.sleep(0)
            time.sleep(2 * DEADLINES.connect_s)  # noqa: ASYNC251  the pause
        assert await asking == 200
