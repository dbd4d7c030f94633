"""The bootstrap: intervals of the right width, and what it does with little."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from router.ranking import mean
from router.resampling import MAX_CELLS, Resamples


def test_interval_of_a_mean() -> None:
    """Of 400 coins it is about ±1.96 standard errors; of 100 groups of 4 alike, twice as wide."""
    generator = np.random.default_rng(5)
    coins = generator.integers(0, 2, 100).astype(float)
    figure = partial(mean, np.tile(coins, 4))
    alone = Resamples.draw(np.arange(400), generator, num_draws=600).estimate(figure)
    grouped = Resamples.draw(np.tile(np.arange(100), 4), generator, num_draws=600).estimate(figure)
    assert alone.value == grouped.value == coins.mean()
    assert alone.high - alone.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.15)
    assert grouped.high - grouped.low == pytest.approx(2 * (alone.high - alone.low), rel=0.2)


def test_figures_of_the_same_draws() -> None:
    """A difference of two figures that always move together has no width, however wide each is by itself."""
    values = np.random.default_rng(0).random(50)
    resamples = Resamples.draw(np.arange(50), np.random.default_rng(1), num_draws=100)
    several = resamples.estimates(
        lambda counts: np.column_stack((mean(values, counts), mean(values + 1, counts)))
    )
    difference = resamples.estimate(lambda counts: mean(values + 1, counts) - mean(values, counts))
    assert several[0].high - several[0].low > 0.05
    assert (difference.low, difference.high) == (pytest.approx(1), pytest.approx(1))
    assert several[1].low == pytest.approx(several[0].low + 1)


def test_looking_piece_by_piece_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on memory does not move the interval."""
    assert MAX_CELLS > 1000
    resamples = Resamples.draw(np.arange(30) // 2, np.random.default_rng(1), num_draws=50)
    figure = partial(mean, np.arange(30.0))
    whole = resamples.estimate(figure)
    monkeypatch.setattr("router.resampling.MAX_CELLS", 100)
    assert resamples.estimate(figure) == whole


def test_draws_that_miss_a_part_do_not_count() -> None:
    """Of requests in one of three groups the draws without it are left out, and their figure is certain."""
    resamples = Resamples.draw(np.array([0, 1, 2, 2]), np.random.default_rng(0), num_draws=40)
    estimate = resamples.select(np.array([2, 3])).estimate(partial(mean, np.array([0.0, 1.0])))
    assert (estimate.low, estimate.value, estimate.high) == (0.5, 0.5, 0.5)


def test_figure_that_is_never_a_number() -> None:
    """Its interval is none either, without a warning."""
    resamples = Resamples.draw(np.arange(3), np.random.default_rng(0), num_draws=5)
    estimate = resamples.estimate(lambda counts: np.full(len(counts), np.nan))
    assert np.isnan([estimate.value, estimate.low, estimate.high]).all()
