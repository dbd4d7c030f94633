"""The estimate behind `retry-after`: worked numbers."""

from __future__ import annotations

import random

import pytest

from serving.upstream.service_time import WEIGHT, ServiceTime


def test_moving_mean() -> None:
    """Unknown at first, then the first request's time, then a tenth of the way to each next."""
    service_time = ServiceTime()
    assert service_time.estimate(0.0) is None
    service_time.begin(0.0)
    service_time.end(0.0, 2.0)
    assert service_time.estimate(9.0) == 2.0
    service_time.begin(10.0)
    service_time.end(10.0, 16.0)
    assert service_time.estimate(99.0) == pytest.approx(2.0 + WEIGHT * 4.0)


def test_hanging_requests_raise_it() -> None:
    """Replicas that were quick and now hang are not promised to be quick: the mean age of what runs is the least."""
    service_time = ServiceTime()
    service_time.begin(0.0)
    service_time.end(0.0, 0.1)
    for _ in range(4):
        service_time.begin(10.0)
    assert service_time.estimate(10.05) == pytest.approx(0.1)
    assert service_time.estimate(40.0) == pytest.approx(30.0)


def test_sum_does_not_drift() -> None:
    """After 20,000 requests at large clock readings, nothing running is known to be nothing."""
    service_time, rng, now = ServiceTime(), random.Random(1), 1e9
    for _ in range(10_000):
        begun = [now + rng.random(), now + 1 + rng.random()]
        for at in begun:
            service_time.begin(at)
        now += 2 + rng.random()
        for at in begun:
            service_time.end(at, now)
    service_time.begin(now)
    assert service_time.estimate(now + 5.0) == pytest.approx(5.0, abs=1e-6)
