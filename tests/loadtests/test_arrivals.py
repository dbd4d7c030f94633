"""Schedules of arrivals by their laws."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from loadtests.arrivals import ARRIVALS, constant_arrivals, poisson_arrivals


@pytest.mark.parametrize("name", ARRIVALS)
def test_arrivals_are_in_order_within_the_duration(name: str) -> None:
    """Every process stays in [0, duration) and repeats itself with its seed."""
    first = ARRIVALS[name](50.0, 4.0, random.Random(3))
    assert list(first) == sorted(first)
    assert all(0 <= offset_s < 4.0 for offset_s in first)
    assert first == ARRIVALS[name](50.0, 4.0, random.Random(3))


def test_constant_arrivals_keep_one_gap() -> None:
    """100 a second for 2 s are 200 arrivals, 10 ms apart, from a random phase."""
    offsets = constant_arrivals(100.0, 2.0, random.Random(0))
    assert len(offsets) == 200
    assert [after - before for before, after in pairwise(offsets)] == pytest.approx([0.01] * 199)
    assert offsets[0] != constant_arrivals(100.0, 2.0, random.Random(1))[0]


def test_poisson_gaps_are_exponential() -> None:
    """Mean and deviation of the gaps are both 1 / rate; for constant gaps the deviation would be 0."""
    offsets = poisson_arrivals(100.0, 200.0, random.Random(0))
    gaps_s = [after - before for before, after in pairwise(offsets)]
    mean_s = sum(gaps_s) / len(gaps_s)
    deviation_s = (sum((gap_s - mean_s) ** 2 for gap_s in gaps_s) / len(gaps_s)) ** 0.5
    assert mean_s == pytest.approx(0.01, rel=0.03)
    assert deviation_s == pytest.approx(0.01, rel=0.05)
