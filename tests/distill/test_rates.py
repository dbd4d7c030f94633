"""How fast weights move."""

from __future__ import annotations

import pytest

from distill.rates import warmed_cosine


def test_a_rate_rises_and_falls() -> None:
    """Linear to its height, where it is once; a cosine to a tenth."""
    rates = [warmed_cosine(step, height=0.6, num_warmup_steps=2, num_steps=100) for step in range(100)]
    assert rates[:3] == pytest.approx([0.2, 0.4, 0.6])
    assert max(rates) == rates[2] == 0.6
    assert rates[51] == pytest.approx(0.33)
    assert rates[-1] == pytest.approx(0.06, rel=0.02)
