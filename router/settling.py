"""How well a simulated run held its target after something changed: time to settle, overshoot, error at rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from router.simulate import TICK_S, Second

WINDOW_S: Final = 120.0
"""The metric is judged by its mean over the requests of the last two minutes, at five a second six hundred."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What followed a change. Deviations are from the target, in the metric's unit, positive for too much."""

    settle_s: float | None
    """From the change until the trailing mean is within the tolerance and never again beyond the limit; 0 where it
    was never beyond it, None where that does not come."""
    peak: float
    """The greatest deviation after the change, either way."""
    overshoot: float
    """The greatest deviation to the other side of the peak's, after it; at least 0."""
    worst_after: float | None
    """The greatest deviation once settled, without sign."""
    mean_after: float | None
    """The deviation of the mean of all requests from then on: the error at rest."""


def trailing_mean(
    amounts: Sequence[float], nums_requests: Sequence[int], *, window_s: float = WINDOW_S
) -> Vector:
    """At the end of each second, the mean of a request over the last `window_s`; NaN where none came in it."""
    width = round(window_s / TICK_S)
    numbers = _sums(nums_requests, width)
    out = np.full(len(amounts), np.nan)
    return np.asarray(np.divide(_sums(amounts, width), numbers, out=out, where=numbers > 0))


def trailing_metric(
    seconds: Sequence[Second], *, window_s: float = WINDOW_S, is_per_hour: bool = False
) -> Vector:
    """At the end of each second, the realised metric over the last `window_s`."""
    amounts = [second.realised for second in seconds]
    if not is_per_hour:
        return trailing_mean(amounts, [second.num_requests for second in seconds], window_s=window_s)
    width = round(window_s / TICK_S)
    spans_s = np.minimum(np.arange(1, len(seconds) + 1), width) * TICK_S
    return np.asarray(_sums(amounts, width) / spans_s * 3600)


def settling(
    seconds: Sequence[Second],
    *,
    target: float,
    since_s: float,
    tolerance: float,
    limit: float,
    window_s: float = WINDOW_S,
    is_per_hour: bool = False,
) -> Settling:
    """Judge what followed a change at `since_s`: back within `tolerance`, and from then on never beyond `limit`."""
    first = round(since_s / TICK_S)
    trailing = trailing_metric(seconds, window_s=window_s, is_per_hour=is_per_hour)
    deviation = np.nan_to_num(trailing[first:] - target)
    peak_at = int(np.argmax(np.abs(deviation)))
    peak = float(deviation[peak_at])
    other_side = -np.sign(peak) * deviation[peak_at:]
    settled = _settled_at(deviation, tolerance, limit)
    worst, mean = None, None
    if settled is not None:
        worst = float(np.abs(deviation[settled:]).max())
        mean = _mean(seconds[first + settled :], is_per_hour=is_per_hour)
    return Settling(
        settle_s=None if settled is None else settled * TICK_S,
        peak=peak,
        overshoot=max(0.0, float(other_side.max())),
        worst_after=worst,
        mean_after=None if mean is None else mean - target,
    )


def _settled_at(deviation: Vector, tolerance: float, limit: float) -> int | None:
    beyond = np.flatnonzero(np.abs(deviation) > limit)
    start = int(beyond[-1]) + 1 if len(beyond) else 0
    within = np.flatnonzero(np.abs(deviation[start:]) <= tolerance)
    return start + int(within[0]) if len(within) else None


def _mean(seconds: Sequence[Second], *, is_per_hour: bool) -> float | None:
    taken = sum(second.realised for second in seconds)
    if is_per_hour:
        return taken / (len(seconds) * TICK_S) * 3600
    num_requests = sum(second.num_requests for second in seconds)
    return taken / num_requests if num_requests else None


def _sums(values: Sequence[float] | Sequence[int], width: int) -> Vector:
    total = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    ends = np.arange(1, len(values) + 1)
    return np.asarray(total[ends] - total[np.maximum(0, ends - width)])
