"""The pool: who is chosen, who waits, and that no permit is ever lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.engines.base import Endpoint
from serving.ledger.records import Outcome
from serving.upstream.breaker import Breaker, BreakerState
from serving.upstream.errors import (
    ConnectError,
    IdleTimeout,
    NoReplica,
    Overloaded,
    TotalTimeout,
    UpstreamError,
)
from serving.upstream.pool import Lease, Pool
from serving.upstream.replica import Replica
from tests import virtual_time


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        virtual_time.run(test(*args, **kwargs))

    del run.__wrapped__  # type: ignore[attr-defined]  # else pytest-asyncio takes it for a coroutine
    return run


def new_pool(
    *capacities: int,
    max_queue: int = 100,
    queue_timeout_s: float = 30.0,
    clock: Callable[[], float] | None = None,
) -> Pool:
    """A pool of replicas a, b, c … of the given capacities; breakers open after two failures, for 1, 2, 4 s …"""
    pool = Pool(
        "fast",
        max_queue=max_queue,
        queue_timeout_s=queue_timeout_s,
        clock=clock or asyncio.get_running_loop().time,
        rng=random.Random(1),
        new_breaker=lambda: Breaker(max_failures=2, open_s=1.0),
    )
    for name, capacity in zip("abcdefgh", capacities, strict=False):
        pool.add(Endpoint(url=name), "model", capacity)
    return pool


async def leased_once(pool: Pool) -> None:
    async with pool.lease():
        pass


class Caller:
    """A request that leases a replica and holds it until told how to leave."""

    def __init__(self, pool: Pool, exclude: frozenset[str] = frozenset()) -> None:
        self.exclude = exclude
        self.lease: Lease | None = None
        self._leave: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(pool))

    async def _run(self, pool: Pool) -> None:
        async with pool.lease(exclude=self.exclude) as self.lease:
            self.lease.outcome = await self._leave

    @property
    def url(self) -> str | None:
        return self.lease.replica.url if self.lease else None

    @property
    def is_waiting(self) -> bool:
        return self.lease is None and not self.task.done()

    def leave(self, how: Outcome | Exception) -> None:
        if isinstance(how, Exception):
            self._leave.set_exception(how)
        else:
            self._leave.set_result(how)

    async def end(self, how: Outcome | Exception = Outcome.SUCCESS) -> None:
        self.leave(how)
        await settle()
        assert self.task.done()
        self.task.exception()


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def callers(pool: Pool, num: int, exclude: frozenset[str] = frozenset()) -> list[Caller]:
    made = []
    for _ in range(num):
        made.append(Caller(pool, exclude))
        await settle()
    return made


async def end_all(ending: list[Caller]) -> None:
    for caller in ending:
        await caller.end()


async def trip(pool: Pool, url: str) -> None:
    """Open the breaker of one replica."""
    others = frozenset(replica.url for replica in pool.replicas) - {url}
    for _ in range(2):
        (caller,) = await callers(pool, 1, exclude=others)
        await caller.end(ConnectError("down"))


@in_virtual_time
async def test_lease_counts_and_returns() -> None:
    """A lease is in flight while it is held and returned however it ends."""
    pool = new_pool(2)
    for how in (Outcome.SUCCESS, Outcome.REJECTED, IdleTimeout(), ValueError("a bug of ours")):
        (caller,) = await callers(pool, 1)
        assert (pool.in_flight, pool.num_waiting) == (1, 0)
        await caller.end(how)
        assert pool.in_flight == 0


@in_virtual_time
async def test_cancelled_lease_is_returned_and_neutral() -> None:
    """A client's departure returns the permit (production-stack PR#1072) and says nothing of the replica."""
    pool = new_pool(1)
    for _ in range(10):
        (caller,) = await callers(pool, 1)
        caller.task.cancel()
        await settle()
        assert caller.lease is not None
        assert caller.lease.outcome is Outcome.CANCELLED
    assert pool.in_flight == 0
    assert pool.is_available


@pytest.mark.parametrize(
    ("how", "outcome", "state"),
    [
        (Outcome.SUCCESS, Outcome.SUCCESS, BreakerState.CLOSED),
        (Outcome.REJECTED, Outcome.REJECTED, BreakerState.CLOSED),
        (Outcome.OVERLOADED, Outcome.OVERLOADED, BreakerState.CLOSED),
        (Outcome.FAILURE, Outcome.FAILURE, BreakerState.OPEN),
        (IdleTimeout(), Outcome.FAILURE, BreakerState.OPEN),
        (TotalTimeout(), Outcome.FAILURE, BreakerState.CLOSED),
        (Overloaded("elsewhere", retry_after_s=1.0), Outcome.OVERLOADED, BreakerState.CLOSED),
        (ValueError("a bug of ours"), Outcome.CANCELLED, BreakerState.CLOSED),
    ],
    ids=str,
)
def test_what_trips_a_breaker(how: Outcome | Exception, outcome: Outcome, state: BreakerState) -> None:
    """Failures of the replica open its breaker; 4xx, backpressure, our bugs and long requests do not (pains 18–20)."""

    async def main() -> None:
        pool = new_pool(1)
        for _ in range(2):
            (caller,) = await callers(pool, 1)
            await caller.end(how)
            assert caller.lease is not None
            assert caller.lease.outcome is outcome
        assert pool.replicas[0].state(asyncio.get_running_loop().time()) is state
        assert pool.is_available is (state is BreakerState.CLOSED)

    virtual_time.run(main())


@in_virtual_time
async def test_least_in_flight_of_two() -> None:
    """With two replicas the emptier one is always chosen; with eight, no replica gets far from its share."""
    for capacities, num, least, most in (((50, 50), 40, 20, 20), ([100] * 8, 400, 45, 55)):
        pool = new_pool(*capacities)
        held = await callers(pool, num)
        assert all(least <= replica.in_flight <= most for replica in pool.replicas)
        await end_all(held)


@in_virtual_time
async def test_first_come_first_served() -> None:
    """Whoever waits longest is next, and a newcomer never overtakes."""
    pool = new_pool(1)
    running, *waiting = await callers(pool, 6)
    for expected in waiting:
        newcomer = Caller(pool)
        running.leave(Outcome.SUCCESS)
        await settle()
        assert expected.lease is not None
        assert newcomer.is_waiting
        newcomer.task.cancel()
        await settle()
        running = expected
    await running.end()
    assert (pool.in_flight, pool.num_waiting) == (0, 0)


@in_virtual_time
async def test_cancelled_waiter_leaves_its_turn() -> None:
    """A waiter cancelled in the very step in which it was granted passes the permit on to the next."""
    pool = new_pool(1)
    running, first, second = await callers(pool, 3)
    running.leave(Outcome.SUCCESS)
    while pool.num_waiting == 2:  # noqa: ASYNC110 - one turn of the loop at a time
        await asyncio.sleep(0)
    assert first.lease is None  # granted, and not yet awake
    first.task.cancel()
    await settle()
    assert second.lease is not None
    await second.end()
    assert (pool.in_flight, pool.num_waiting) == (0, 0)


@pytest.mark.parametrize("offset_s", [-1e-10, 1e-10])
def test_departure_in_the_instant_of_the_timeout(offset_s: float) -> None:
    """A waiter that is cancelled and times out in one turn of the loop leaves once, and nothing is raised aside."""

    async def main() -> None:
        pool = new_pool(1, queue_timeout_s=8.0)
        running, waiting = await callers(pool, 2)
        loop = asyncio.get_running_loop()
        loop.call_later(8.0 + offset_s, waiting.task.cancel)
        await asyncio.sleep(9.0)
        assert waiting.task.cancelled()
        assert pool.num_waiting == 0
        await running.end()

    virtual_time.run(main())


@in_virtual_time
async def test_a_waiter_for_another_replica_blocks_nobody() -> None:
    """Who is first in line, but excludes the replica that has room, is passed by those who do not."""
    pool = new_pool(1, 1)
    on_a, on_b = sorted(await callers(pool, 2), key=lambda caller: caller.url or "")
    (first,) = await callers(pool, 1, exclude=frozenset("b"))
    (second,) = await callers(pool, 1)
    await on_b.end()
    assert (first.url, second.url) == (None, "b")
    await on_a.end()
    assert first.url == "a"
    await first.end()
    await second.end()


@in_virtual_time
async def test_newcomer_does_not_overtake_when_time_made_room() -> None:
    """Room that came by time, before the timer was heard, goes to who waits and not to who comes by."""
    now = 0.0
    pool = new_pool(1, 1, clock=lambda: now)
    await trip(pool, "a")
    busy, waiting = await callers(pool, 2)
    assert (busy.url, waiting.is_waiting) == ("b", True)
    now = 1.5
    (newcomer,) = await callers(pool, 1)
    assert (waiting.url, newcomer.is_waiting) == ("a", True)
    await end_all([busy, waiting, newcomer])


@in_virtual_time
async def test_served_waiters_leave_no_timers() -> None:
    """A served waiter's timeout is gone with it, and does not lie in the loop until it would have fired."""
    pool = new_pool(1)
    for caller in await callers(pool, 4):
        await caller.end()
    loop = asyncio.get_running_loop()
    assert not [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]


@in_virtual_time
async def test_full_queue_refuses_with_an_honest_retry_after() -> None:
    """`retry_after_s` is the time in which the line will have been served: 5 requests of 2 s on 2 slots are 5 s."""
    pool = new_pool(2, max_queue=4)
    (caller,) = await callers(pool, 1)
    await asyncio.sleep(2.0)
    await caller.end()
    held = await callers(pool, 6)
    assert pool.num_waiting == 4
    with pytest.raises(Overloaded) as refusal:
        async with pool.lease():
            raise AssertionError
    assert refusal.value.retry_after_s == pytest.approx(5.0)
    await end_all(held)
    assert pool.in_flight == 0


@in_virtual_time
async def test_waiting_ends_after_the_timeout() -> None:
    """A waiter gives up after `queue_timeout_s`; what it is told grows with how long the running ones have hung."""
    pool = new_pool(1, queue_timeout_s=30.0)
    (hanging,) = await callers(pool, 1)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Overloaded) as refusal:
        async with pool.lease():
            raise AssertionError
    assert asyncio.get_running_loop().time() - began == pytest.approx(30.0)
    assert refusal.value.retry_after_s == pytest.approx(30.0)
    assert pool.num_waiting == 0
    await hanging.end()


@in_virtual_time
async def test_excluded_replicas_are_not_chosen() -> None:
    """A retry goes to another replica, waits for another, and is refused where there is no other."""
    pool = new_pool(1, 1)
    first, second = await callers(pool, 2, exclude=frozenset("b"))
    assert first.url == "a"
    assert second.is_waiting
    with pytest.raises(NoReplica):
        async with pool.lease(exclude=frozenset("ab")):
            raise AssertionError
    (other,) = await callers(pool, 1)
    assert other.url == "b"
    await other.end()
    assert second.is_waiting  # room on b is no room for it
    await first.end()
    assert second.url == "a"
    await second.end()


@in_virtual_time
async def test_open_breaker_diverts_and_a_probe_brings_back() -> None:
    """A failing replica gets nothing while open, one probe after, and its share once that succeeded."""
    pool = new_pool(10, 10)
    await trip(pool, "a")
    held = await callers(pool, 8)
    assert {caller.url for caller in held} == {"b"}
    await end_all(held)
    await asyncio.sleep(1.0)
    held = await callers(pool, 8)
    assert sorted(caller.url or "" for caller in held) == ["a", *"bbbbbbb"]
    await end_all(held)
    held = await callers(pool, 8)
    assert sorted(caller.url or "" for caller in held) == [*"aaaabbbb"]
    await end_all(held)


@in_virtual_time
async def test_panic_when_every_breaker_is_open() -> None:
    """With all replicas tripped requests still go out, and one that succeeds ends the panic (litellm#3646)."""
    pool = new_pool(1, 1)
    await trip(pool, "a")
    await trip(pool, "b")
    assert not pool.is_available
    first, second = await callers(pool, 2)
    assert {first.url, second.url} == {"a", "b"}
    await first.end()
    assert pool.is_available
    await second.end()


@in_virtual_time
async def test_waiter_is_woken_when_a_breaker_half_opens() -> None:
    """Time alone makes room: who waits for a healthy, full replica gets the recovering one when its time is over."""
    pool = new_pool(1, 1)
    await trip(pool, "a")
    busy, waiting = await callers(pool, 2)
    assert (busy.url, waiting.is_waiting) == ("b", True)
    await asyncio.sleep(1.01)
    assert waiting.url == "a"
    await waiting.end()
    await busy.end()


@in_virtual_time
async def test_each_recovery_wakes_one() -> None:
    """Two replicas whose times end one after the other are probed by two waiters, one after the other."""
    pool = new_pool(1, 1, 1)
    await trip(pool, "a")
    await asyncio.sleep(0.5)
    await trip(pool, "c")
    busy, first, second = await callers(pool, 3)
    await asyncio.sleep(0.6)
    assert (busy.url, first.url, second.is_waiting) == ("b", "a", True)
    await asyncio.sleep(0.5)
    assert second.url == "c"
    await end_all([busy, first, second])


@in_virtual_time
async def test_retry_after_of_an_upstream_is_honoured() -> None:
    """A replica that asked for rest gets none of the load until then, and all is as before afterwards."""
    pool = new_pool(10, 10)
    (caller,) = await callers(pool, 1, exclude=frozenset("b"))
    assert caller.lease is not None
    caller.lease.retry_after_s = 20.0
    await caller.end(Outcome.OVERLOADED)
    held = await callers(pool, 6)
    assert {caller.url for caller in held} == {"b"}
    await end_all(held)
    await asyncio.sleep(20.0)
    held = await callers(pool, 6)
    assert sorted(caller.url or "" for caller in held) == [*"aaabbb"]
    await end_all(held)


@in_virtual_time
async def test_remove_drains() -> None:
    """A removed replica keeps what it has, gets nothing new, and is gone when it is idle."""
    pool = new_pool(1, 1)
    on_a, on_b = sorted(await callers(pool, 2), key=lambda caller: caller.url or "")
    removed = pool.remove("a")
    assert removed is not None
    idle = asyncio.create_task(removed.wait_idle())
    (waiting,) = await callers(pool, 1)
    assert waiting.is_waiting
    assert (pool.in_flight, idle.done()) == (2, False)
    await on_b.end()
    assert waiting.url == "b"
    await on_a.end()
    assert idle.done()
    assert [replica.url for replica in pool.replicas] == ["b"]
    assert pool.remove("a") is None
    await waiting.end()


@in_virtual_time
async def test_free_places_are_those_that_nobody_waits_for() -> None:
    """Room at replicas in health; none while somebody stands in line, or where the breaker is open."""
    pool = new_pool(2, 1)
    assert pool.num_free == 3
    async with pool.lease(), pool.lease():
        assert pool.num_free == 1
        async with pool.lease():
            waiting = asyncio.create_task(leased_once(pool))
            await asyncio.sleep(0)
            assert (pool.num_free, pool.num_waiting) == (0, 1)
        await waiting
    assert pool.num_free == 3
    for _ in range(2):
        with pytest.raises(IdleTimeout):
            async with pool.lease(exclude=frozenset("a")):
                raise IdleTimeout
    assert pool.num_free == 2


@in_virtual_time
async def test_add_serves_those_who_wait() -> None:
    """A replica that joins takes waiting requests at once; the same URL may join again while its former drains."""
    pool = new_pool(1)
    running, *waiting = await callers(pool, 3)
    with pytest.raises(ValueError, match="already"):
        pool.add(Endpoint(url="a"), "model", 1)
    pool.add(Endpoint(url="b"), "model", 1)
    await settle()
    assert waiting[0].url == "b"
    pool.remove("a")
    pool.add(Endpoint(url="a"), "model", 1)
    await settle()
    assert waiting[1].url == "a"
    assert pool.in_flight == 3
    await end_all([running, *waiting])
    assert pool.in_flight == 0
    assert len(pool.replicas) == 2


@in_virtual_time
async def test_waiters_hear_that_the_last_replica_is_gone() -> None:
    """Nobody waits out the timeout for a pool that became empty."""
    pool = new_pool(1)
    running, waiting = await callers(pool, 2)
    pool.remove("a")
    await settle()
    assert isinstance(waiting.task.exception(), NoReplica)
    await running.end()


@in_virtual_time
async def test_changes_are_told() -> None:
    """After every change the observer has seen the counts as they are."""
    seen: list[tuple[int, int]] = []
    pool = new_pool()
    pool._on_change = lambda pool: seen.append((pool.in_flight, pool.num_waiting))
    pool.add(Endpoint(url="a"), "model", 1)
    first, second = await callers(pool, 2)
    assert seen[-1] == (1, 1)
    await first.end()
    assert seen[-1] == (1, 0)
    await second.end()
    assert seen[-1] == (0, 0)


ENDS = [
    *Outcome,
    ConnectError("down"),
    TotalTimeout(),
    Overloaded("elsewhere", retry_after_s=2.0),
    ValueError("a bug of ours"),
]
arrivals = st.tuples(st.just("arrive"), st.sampled_from([0, 0, 0, 1, 2, 4, 5, 6, 7]))
leavings = st.tuples(st.just("leave"), st.integers(0, 99), st.sampled_from(ENDS), st.booleans())
departures = st.tuples(st.just("cancel"), st.integers(0, 99), st.booleans())
changes = st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 2), st.integers(1, 3))
pauses = st.tuples(st.just("pause"), st.floats(0.01, 12))
#: Some steps let the loop run on before the next and some do not, so that events meet in one turn of it.
histories = st.lists(
    st.one_of(arrivals, arrivals, arrivals, leavings, leavings, departures, changes, pauses), max_size=80
)


class History:
    """A pool under a random history, and what must be true of it whenever the loop has come to rest."""

    def __init__(self) -> None:
        self.pool = new_pool(2, 1, max_queue=4, queue_timeout_s=8.0)
        self.callers: list[Caller] = []

    def step(self, verb: str, *args: Any) -> None:
        match verb:
            case "arrive":
                exclude = frozenset(name for bit, name in enumerate("abc") if args[0] >> bit & 1)
                self.callers.append(Caller(self.pool, exclude))
            case "leave":
                holding = [c for c in self.callers if c.lease and not c.task.done() and not c._leave.done()]
                if holding:
                    caller = holding[args[0] % len(holding)]
                    assert caller.lease is not None
                    caller.lease.retry_after_s = 1.5 if args[2] else None
                    caller.leave(args[1])
            case "cancel" if self.callers:
                self.callers[args[0] % len(self.callers)].task.cancel()
            case "remove":
                self.pool.remove("abc"[args[0]])
            case "add" if "abc"[args[0]] not in self.pool._replicas:
                self.pool.add(Endpoint(url="abc"[args[0]]), "model", args[1])

    def check(self) -> None:
        now = asyncio.get_running_loop().time()
        holding = [caller for caller in self.callers if caller.lease and not caller.task.done()]
        waiting = [caller for caller in self.callers if caller.is_waiting]
        assert self.pool.in_flight == len(holding)
        assert self.pool.num_waiting == len(waiting)
        assert all(0 <= replica.in_flight <= replica.max_in_flight for replica in self.pool.replicas)
        for caller in waiting:
            assert not self.room_for(caller, now), f"{caller.exclude} waits while there is room"

    def room_for(self, caller: Caller, now: float) -> list[Replica]:
        theirs = [r for r in self.pool.replicas if not r.is_draining and r.url not in caller.exclude]
        suitable = [replica for replica in theirs if replica.allows(now)] or theirs
        assert theirs, "waits for nobody"
        return [replica for replica in suitable if replica.has_room]


@settings(max_examples=300, deadline=None)
@given(histories)
def test_law_no_permit_is_lost_and_nobody_waits_beside_room(history: list[tuple[Any, ...]]) -> None:
    """After any mix of successes, errors, cancellations, adds, removes and time, the counts are exact and end at 0."""

    async def main() -> None:
        past = History()
        for step in history:
            if step[0] == "pause":
                await asyncio.sleep(step[1])
            else:
                past.step(*step)
            if (
                step[-1] is not False
            ):  # cancelled or left without a rest: the next step comes in the same turn
                await settle()
                past.check()
        await settle()
        for caller in past.callers:
            if not caller.task.done():
                caller.task.cancel()
        results = await asyncio.gather(*(caller.task for caller in past.callers), return_exceptions=True)
        expected = (UpstreamError, asyncio.CancelledError, ValueError, type(None))
        assert all(isinstance(result, expected) for result in results), results
        assert (past.pool.in_flight, past.pool.num_waiting) == (0, 0)
        assert not past.pool._draining

    virtual_time.run(main())
