"""How long a search is taken to last."""

from __future__ import annotations

import pytest

from loadtests.tuning.estimate import climb_s, confirm_s, measurement_s
from loadtests.tuning.space import Knob


def test_large_weights_take_long() -> None:
    """Twice the bytes, twice the time; a small model's is bounded by its tokens."""
    assert measurement_s(20 << 30) == pytest.approx(2 * measurement_s(10 << 30))
    assert measurement_s(1 << 20) == measurement_s(2 << 20)


def test_each_candidate_counts() -> None:
    """A start and four rounds of two measurements; the confirmation starts two servers for each of twelve rounds."""
    space = [Knob(name="a", default=1, values=(1, 2, 3)), Knob(name="b", default=True, values=(True, False))]
    one_s = measurement_s(1 << 20)
    assert climb_s(space, 1 << 20, start_s=5) == pytest.approx(3 * (5 + 8 * one_s))
    assert confirm_s(1 << 20, start_s=5) == pytest.approx(24 * (5 + one_s))
