"""Intervals of a line-up: items of all models are drawn together; a median's is by order statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from distill.line_up.draws import Draws, estimate, ratio, speed


def test_a_draw_has_as_many_items_of_each_domain() -> None:
    """The first line has each item once; every other as many in all."""
    draws = Draws.of({"a": 3, "b": 5}, seed=0, num_draws=50)
    assert draws.counts["a"].shape == (51, 3)
    assert (draws.counts["a"][0] == 1).all()
    assert (draws.counts["b"].sum(1) == 5).all()
    assert not (draws.counts["b"][1:] == 1).all()


def test_macro_means_by_hand() -> None:
    """Domains count alike, however many items they have; a total counts items."""
    draws = Draws.of({"a": 2, "b": 4}, seed=0, num_draws=10)
    values = {"a": [1.0, 0.0], "b": [1.0, 1.0, 1.0, 0.0]}
    assert draws.macro(values)[0] == pytest.approx((0.5 + 0.75) / 2)
    assert draws.total(values)[0] == 4


def test_what_two_have_in_common_is_in_no_interval() -> None:
    """A model beside itself keeps exactly all, though its own score is uncertain."""
    draws = Draws.of({"a": 20}, seed=0, num_draws=400)
    scores = draws.macro({"a": [1.0] * 10 + [0.5] * 10})
    own, beside = estimate(scores), estimate(ratio(scores, scores))
    assert own is not None
    assert beside is not None
    assert own.low < 0.75 < own.high
    assert (beside.low, beside.value, beside.high) == (1.0, 1.0, 1.0)


def test_infinite_draws_are_bounds_and_no_number_is_none() -> None:
    """A task that some draws never solve costs infinitely much at the upper end; 0 of 0 is left out."""
    found = estimate(np.array([2.0, *[2.0] * 90, *[math.inf] * 10]))
    assert found is not None
    assert (found.low, found.high) == (2.0, math.inf)
    assert estimate(np.array([math.nan, 1.0])) is None
    assert math.isinf(ratio(np.array([1.0]), np.array([0.0]))[0])


def test_six_rounds_have_an_interval_and_five_none() -> None:
    """Of six the least and the greatest, 97 % (1 − 2/2⁶); of nine the second and the last but one, 96 %."""
    rates = [1.0, 6.0, 2.0, 5.0, 3.0, 4.0]
    assert speed(rates, [1.0] * 6).interval == (1.0, 6.0)
    assert speed(rates[:5], [1.0] * 5).interval is None
    assert speed([float(each) for each in range(1, 10)], [1.0] * 9).interval == (2.0, 8.0)


def test_a_ratio_is_of_the_same_round() -> None:
    """A machine that slows down for a round slows both: the ratio stays."""
    found = speed([20.0, 2.0, 20.0], [10.0, 1.0, 10.0])
    assert (found.tokens_per_s, found.ratio) == (20.0, 2.0)
