"""What is beyond noise: a race by signs that drops losers early, and an interval for a ratio by order statistics. Pure.

Nothing is assumed of the noise but that it falls on both servers of a round alike, whose order is drawn: where a
setting changes nothing, each is ahead in half of the rounds. The counts are then binomial, whatever the noise looks
like (the sign test: Conover, Practical Nonparametric Statistics, 1999, section 3.4).

- A *race* of `RACE_ROUNDS` is won with at most `MAX_LOSSES`: a setting that changes nothing wins it with probability
  9/256, and is dropped after four rounds on average.
- The *interval* of the median ratio lies between two order statistics; with n rounds, the k-th from either end, k the
  greatest for which 2 P(Bin(n, 1/2) < k) ≤ 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import Final

from loadtests.quantiles import Estimate

RACE_ROUNDS: Final = 8
MAX_LOSSES: Final = 1
MIN_GAIN: Final = 0.01
"""A round is lost by who is not ahead by so much: less is not worth a line of settings."""
MAX_MISS: Final = 0.05
"""The probability that an interval misses the median is at most this."""


class Race:
    """Rounds of a candidate against a reference; each adds how many times as good the candidate was."""

    def __init__(self) -> None:
        self._num_rounds = 0
        self._num_losses = 0

    def add(self, ratio: float) -> None:
        """One round more."""
        self._num_rounds += 1
        self._num_losses += not ratio > 1 + MIN_GAIN

    @property
    def is_lost(self) -> bool:
        """It cannot be won any more."""
        return self._num_losses > MAX_LOSSES

    @property
    def is_won(self) -> bool:
        """All rounds are run, and it was ahead in enough of them."""
        return self._num_rounds >= RACE_ROUNDS and not self.is_lost

    @property
    def is_over(self) -> bool:
        """One of the two."""
        return self.is_lost or self.is_won


def interval(values: Sequence[float]) -> Estimate:
    """The median of at least one value, and its interval; none of fewer than six."""
    ordered = sorted(values)
    k = rank(len(ordered))
    if k == 0:
        return Estimate(value=median(ordered))
    return Estimate(value=median(ordered), low=ordered[k - 1], high=ordered[-k])


def is_gain(ratio: Estimate) -> bool:
    """Whether it is better beyond noise: all of the interval is above 1."""
    return ratio.low is not None and ratio.low > 1


def shown(ratio: Estimate) -> str:
    """A ratio as one reads it."""
    return f"× {ratio.value:.3f}" + ("" if ratio.low is None else f" ({ratio.low:.3f}–{ratio.high:.3f})")


def rank(num_rounds: int) -> int:
    """k: the interval goes from the k-th smallest to the k-th greatest; 0 where there is none."""
    k = 0
    while 2 * sum(comb(num_rounds, each) for each in range(k + 1)) <= MAX_MISS * 2**num_rounds:
        k += 1
    return k
