"""Estimates of arrival rate and of mispricing: unbiased, quick to see a burst, and never out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from router.traffic import FAST_S, MAX_RATIO, SLOW_S, ArrivalRate, DecayedRate, Mispricing


def arrive(rate: ArrivalRate, *, per_second: float, begin: float, end: float) -> None:
    for i in range(round((end - begin) * per_second)):
        rate.observe(begin + i / per_second)


@pytest.mark.parametrize("age", [10.0, 60.0, 600.0])
def test_an_even_stream_has_its_rate_from_the_start(age: float) -> None:
    """Five a second are five a second, after ten seconds as after ten minutes."""
    rate = ArrivalRate()
    arrive(rate, per_second=5, begin=100.0, end=100.0 + age)
    assert rate.per_second(100.0 + age) == pytest.approx(5, rel=0.05)


def test_poisson_arrivals_are_estimated_without_much_bias() -> None:
    """Over many windows the mean of the estimates is within 3 % of the true rate, though a burst is looked for."""
    rng, rate, at, estimates = np.random.default_rng(0), ArrivalRate(), 0.0, []
    for _ in range(20_000):
        at += rng.exponential(1 / 5)
        rate.observe(at)
        estimates.append(rate.per_second(at))
    assert np.mean(estimates[1000:]) == pytest.approx(5, rel=0.03)


def test_a_burst_is_seen_within_seconds() -> None:
    """Ten times the rate is seen to more than a half after ten seconds; the slow rate alone would see a fifth."""
    rate = ArrivalRate()
    arrive(rate, per_second=5, begin=0, end=300)
    arrive(rate, per_second=50, begin=300, end=310)
    assert rate.per_second(310) > 25
    assert rate.slow.per_second(310) < 13


def test_silence_lets_the_rate_fall() -> None:
    """After a minute of silence the slow rate is 1/e of what it was; a rate never asked is 0."""
    rate = ArrivalRate()
    arrive(rate, per_second=5, begin=0, end=600)
    before = rate.slow.per_second(600)
    assert rate.per_second(600 + SLOW_S) == pytest.approx(before / np.e, rel=0.01)
    assert ArrivalRate().per_second(5.0) == 0.0


def test_another_clock_changes_nothing() -> None:
    """Moved to another clock, an estimate goes on as before."""
    one, other = DecayedRate(FAST_S), DecayedRate(FAST_S)
    for rate in (one, other):
        rate.observe(1.0, 3.0)
    other.move(64.0)
    one.observe(3.0, 1.0)
    other.observe(67.0, 1.0)
    assert one.per_second(4.0) == other.per_second(68.0)


def test_mispricing_finds_the_factor_and_begins_at_one() -> None:
    """Before anything ended the ratio is 1; of what ends at twice its price, nearly 2, wherever prices lie."""
    for price in (1e-6, 1.0, 1e6):
        mispricing = Mispricing(300)
        assert mispricing.ratio(price) == 1.0
        for _ in range(1000):
            mispricing.observe(expected=price, realised=2 * price)
        assert mispricing.ratio(price) == pytest.approx(2, rel=0.05)


def test_what_was_not_expected_at_all_still_gives_a_bounded_ratio() -> None:
    """Requests that take something though nothing was expected raise the ratio, up to its bound; 0 of 0 is 1."""
    mispricing = Mispricing(300)
    for _ in range(1000):
        mispricing.observe(expected=0.0, realised=1.0)
    assert mispricing.ratio(0.3) == MAX_RATIO
    assert Mispricing(300).ratio(0.0) == 1.0
