"""When requests arrive: schedules that know nothing of the answers, so that a slow server slows nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

ArrivalProcess = Callable[[float, float, random.Random], tuple[float, ...]]


def constant_arrivals(rate: float, duration_s: float, rng: random.Random) -> tuple[float, ...]:
    """Offsets at even gaps of `1 / rate` in [0, duration_s), from a random phase within the first gap.

    The phase keeps the load from falling into step with a clock tick somewhere in what is measured.
    """
    gap_s = 1 / rate
    num_arrivals = round(rate * duration_s)
    phase_s = rng.random() * gap_s
    return tuple(phase_s + index * gap_s for index in range(num_arrivals))


def poisson_arrivals(rate: float, duration_s: float, rng: random.Random) -> tuple[float, ...]:
    """Offsets in [0, duration_s) with exponential gaps of mean `1 / rate`: many independent clients."""
    offsets: list[float] = []
    offset_s = rng.expovariate(rate)
    while offset_s < duration_s:
        offsets.append(offset_s)
        offset_s += rng.expovariate(rate)
    return tuple(offsets)


ARRIVALS: dict[str, ArrivalProcess] = {"poisson": poisson_arrivals, "constant": constant_arrivals}
