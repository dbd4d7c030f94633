"""Races and intervals: the probabilities that they state."""

from __future__ import annotations

import random
from itertools import product
from statistics import median

import pytest

from loadtests.quantiles import Estimate
from loadtests.tuning.evidence import RACE_ROUNDS, Race, interval, is_gain, rank, shown


def raced(ratios: list[float]) -> Race:
    race = Race()
    for ratio in ratios:
        if race.is_over:
            break
        race.add(ratio)
    return race


def test_a_race_by_luck() -> None:
    """Of all 256 ways in which eight coins fall, nine win it."""
    ways = list(product([1.1, 0.9], repeat=RACE_ROUNDS))
    assert sum(raced(list(way)).is_won for way in ways) == 9
    assert all(raced(list(way)).is_over for way in ways)


def test_a_race_is_left_at_the_second_loss() -> None:
    """Being ahead by less than a hundredth is a loss, and so is a tie."""
    race = raced([1.2, 1.005, 1.3])
    assert not race.is_over
    race.add(1.0)
    assert race.is_lost
    assert not race.is_won


@pytest.mark.parametrize(("num_rounds", "expected"), [(5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (20, 6)])
def test_ranks_are_those_of_the_tables(num_rounds: int, expected: int) -> None:
    """As tables of the sign test have them for 95 %."""
    assert rank(num_rounds) == expected


def test_an_interval_holds_the_median() -> None:
    """In at least 95 % of samples, of noise with heavy tails as well."""
    rng = random.Random(0)
    held = 0
    for _ in range(2000):
        found = interval(
            [1.2 * 1.05 ** (rng.gauss(0, 1) / max(1e-3, abs(rng.gauss(0, 1)))) for _ in range(12)]
        )
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.2 <= found.high
    assert held / 2000 > 0.95


def test_a_gain_beyond_noise() -> None:
    """All of its interval is above 1; without one it is not known to be."""
    assert interval([1.1] * 6) == Estimate(value=1.1, low=1.1, high=1.1)
    assert is_gain(interval([1.1] * 6))
    assert not is_gain(interval([1.1] * 5))
    assert not is_gain(interval([1.1] * 5 + [1.0]))
    values = [0.9, 0.95, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09, 1.2]
    found = interval(values[::-1])
    assert (found.low, found.value, found.high) == (1.01, median(values), 1.08)
    assert shown(found) == "× 1.045 (1.010–1.080)"
