"""Generalised advantages: by hand, and what they come to at both ends of λ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.gae import gae

values = st.lists(st.floats(-2, 2), min_size=1, max_size=12).map(lambda each: np.array(each))


def test_by_hand() -> None:
    """Three tokens with a reward behind the last: errors −0.275, 0.425 and 0.25, and γλ = 0.45."""
    found = gae(np.array([0.5, 0.25, 0.75]), 1.0, discount=0.9, trace=0.5)
    assert found == pytest.approx([-0.033125, 0.5375, 0.25], abs=1e-15)


@given(values, st.floats(-1, 1), st.floats(0.5, 1))
def test_whole_trace_is_return_less_value(held: np.ndarray, reward: float, discount: float) -> None:
    """λ = 1: the reward as far as it is away, less the value."""
    away = np.arange(len(held))[::-1]
    assert gae(held, reward, discount=discount, trace=1.0) == pytest.approx(
        discount**away * reward - held, abs=1e-12
    )


@given(values, st.floats(-1, 1), st.floats(0.5, 1))
def test_no_trace_is_the_error_of_one_step(held: np.ndarray, reward: float, discount: float) -> None:
    """λ = 0: what the next state is worth, or the reward behind the last, less the value."""
    found = gae(held, reward, discount=discount, trace=0.0)
    assert found[:-1] == pytest.approx(discount * held[1:] - held[:-1], abs=1e-12)
    assert found[-1] == pytest.approx(reward - held[-1], abs=1e-12)


def test_right_values_leave_nothing() -> None:
    """Where every value is what comes, no token has an advantage, whatever λ."""
    for trace in (0.0, 0.7, 1.0):
        assert gae(np.array([0.25, 0.5, 1.0]), 1.0, discount=0.5, trace=trace).tolist() == [0.0, 0.0, 0.0]
