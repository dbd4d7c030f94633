"""The simulator: requests pass the real value rule and the real controller, a virtual second at a time.

It keeps no history of its own: `simulate` yields what happened in each second, and the caller keeps what it wants. With
`router.workload` the requests are synthetic; a ledger's can be replayed as well.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Final

import numpy as np

from router.budget import BudgetController, BudgetState
from router.offer import Spend
from router.staircase import banded, staircase
from router.workload import Request

TICK_S: Final = 1.0
OVERHEAD_S: Final = 0.2
"""What a request takes beside its engine's work."""


@dataclass(slots=True, kw_only=True)
class Second:
    """What happened in one second; sums are over the requests that were decided in it."""

    at: float
    """Its end."""
    state: BudgetState
    """After the tick that ended it."""
    num_requests: int = 0
    realised: float = 0.0
    """In the metric's unit of a request."""
    expected: float = 0.0
    success_probability: float = 0.0
    num_judged: int = 0
    """Requests of which it is known whether they succeeded."""
    num_successes: int = 0
    full_share: float = 0.0
    cost: float = 0.0

    def joined(self, later: Second) -> Second:
        """The stretch of both, as it stood at the end of `later`."""
        return Second(
            at=later.at,
            state=later.state,
            num_requests=self.num_requests + later.num_requests,
            realised=self.realised + later.realised,
            expected=self.expected + later.expected,
            success_probability=self.success_probability + later.success_probability,
            num_judged=self.num_judged + later.num_judged,
            num_successes=self.num_successes + later.num_successes,
            full_share=self.full_share + later.full_share,
            cost=self.cost + later.cost,
        )


def total(seconds: Sequence[Second]) -> Second:
    """All of a stretch as one."""
    return reduce(Second.joined, seconds)


@dataclass(order=True, slots=True)
class _Ending:
    at: float
    number: int
    expected: Spend = field(compare=False)
    realised: Spend = field(compare=False)


def simulate(
    requests: Iterable[Request], controller: BudgetController, rng: np.random.Generator, *, until_s: float
) -> Iterator[Second]:
    """Route `requests` in order of time and yield each second of it, from 0 to `until_s`.

    A request ends after its engine's seconds, and only then tells the controller what it took. `rng` draws its λ from
    the band.
    """
    pending = iter(requests)
    request = next(pending, None)
    running: list[_Ending] = []
    numbers = count()
    end = TICK_S
    second = Second(at=end, state=controller.state)
    while end <= until_s:
        next_at = request.at if request is not None else until_s + TICK_S
        while running and running[0].at <= min(end, next_at):
            ending = heapq.heappop(running)
            controller.observe_spend(ending.at, expected=ending.expected, realised=ending.realised)
        if request is not None and next_at <= end:
            expected, realised = _route(request, controller, second, float(rng.random()))
            finish = request.at + OVERHEAD_S + realised.engine_seconds
            heapq.heappush(running, _Ending(finish, next(numbers), expected, realised))
            request = next(pending, None)
            continue
        second.state = controller.tick(end)
        yield second
        end += TICK_S
        second = Second(at=end, state=controller.state)


def _route(
    request: Request, controller: BudgetController, second: Second, uniform: float
) -> tuple[Spend, Spend]:
    """Decide one request as the policy would, at a λ from the band; return what it is expected to take, and takes."""
    state, metric = controller.state, controller.config.metric
    price = banded(state.price_of_compute, spread=state.spread, uniform=uniform)
    stairs = staircase(request.offer, metric)
    chosen = stairs.arms[stairs.choose(price)]
    controller.observe_decision(request.at, request.offer, chosen=chosen)
    arm, realised = request.offer.arms[chosen], request.realised[chosen]
    second.num_requests += 1
    second.realised += metric.price(realised)
    second.expected += metric.price(arm.expected)
    second.success_probability += arm.success_probability
    if request.succeeds is not None:
        second.num_judged += 1
        second.num_successes += request.succeeds[chosen]
    second.full_share += realised.full_share
    second.cost += realised.cost
    return arm.expected, realised
