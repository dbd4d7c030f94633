"""Advantages: they sum to zero, equal scores say nothing, and a domain is heard whatever the size of its scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.advantages import LEAST_SCALE, DomainScale, by_parts, centred

scores = st.lists(st.floats(0, 1), min_size=1, max_size=16)


@given(scores, st.booleans())
def test_group_advantages_sum_to_zero(group: list[float], by_deviation: bool) -> None:
    """Whatever the scores, what one gains the others lose."""
    assert centred(group, by_deviation=by_deviation).sum() == pytest.approx(0, abs=1e-6)


@given(scores)
def test_order_is_kept(group: list[float]) -> None:
    """A better score never has the smaller advantage."""
    advantages = centred(group)
    assert all(np.diff(advantages[np.argsort(group, kind="stable")]) >= 0)


def test_by_hand() -> None:
    """One of four is right: three quarters for it, a quarter less for each of the rest."""
    assert centred([1, 0, 0, 0]).tolist() == [0.75, -0.25, -0.25, -0.25]
    assert centred([1, 0, 0, 0], by_deviation=True, epsilon=0)[0] == pytest.approx(0.75 / 0.5)


@pytest.mark.parametrize("group", [[0.3], [1, 1, 1], [0, 0]])
def test_no_difference_is_no_advantage(group: list[float]) -> None:
    """A lone rollout, or equal ones, teach nothing, and nothing is divided by zero."""
    assert not centred(group, by_deviation=True).any()


def test_parts_are_heard_alike() -> None:
    """A part that varies little counts as much as one that varies a lot; one that all share counts nothing."""
    parts = [
        {"right": 1.0, "short": 0.51, "polite": 1.0},
        {"right": 0.0, "short": 0.5, "polite": 1.0},
    ]
    found = by_parts(parts, {"right": 1.0, "short": -1.0, "polite": 9.0})
    assert found == pytest.approx([0, 0], abs=0.02)


def test_domains_are_heard_alike() -> None:
    """After a while the advantages of a domain have a mean square of one, whatever the size of its scores."""
    scale = DomainScale()
    for _ in range(200):
        loud = scale.scaled("loud", centred([1, 0]))
        quiet = scale.scaled("quiet", centred([0.2, 0]))
    assert loud == pytest.approx([1, -1])
    assert quiet == pytest.approx([1, -1])


def test_hardly_any_difference_is_not_blown_up() -> None:
    """Differences of a thousandth stay small."""
    found = DomainScale().scaled("still", centred([0.501, 0.499]))
    assert found == pytest.approx([0.001 / LEAST_SCALE, -0.001 / LEAST_SCALE])


def test_scale_goes_on_from_a_checkpoint() -> None:
    """Restored, it scales as it would have."""
    scale = DomainScale()
    scale.scaled("sums", centred([1, 0, 0]))
    again = DomainScale()
    again.restore(scale.plain())
    assert (
        again.scaled("sums", centred([1, 1, 0])).tolist() == scale.scaled("sums", centred([1, 1, 0])).tolist()
    )
