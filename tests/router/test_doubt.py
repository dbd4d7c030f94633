"""The ration of doubt: it is saved up, it is bounded, and it never lets doubt overrun its share of the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.doubt import MAX_SHARE, SAVED_REQUESTS, Ration


@given(st.floats(0.01, 1), st.lists(st.booleans(), max_size=600))
def test_doubt_takes_at_most_its_share(target: float, in_doubt: list[bool]) -> None:
    """Whatever the requests, those that go up for doubt take at most the share of the target, and what was saved."""
    ration, taken = Ration(), 0.0
    for is_in_doubt in in_doubt:
        ration.fill(target)
        assert ration.left is not None
        if is_in_doubt and ration.left >= 1.0:
            ration.take(1.0)
            taken += 1.0
    assert taken <= MAX_SHARE * target * (len(in_doubt) + SAVED_REQUESTS) + 1e-9


def test_a_stretch_of_doubt_is_rationed_and_a_few_are_not() -> None:
    """At a target of 0.3, a hundred requests in doubt: the first fifteen go up, then one in seven."""
    ration, up = Ration(), []
    for _ in range(100):
        ration.fill(0.3)
        assert ration.left is not None
        is_up = ration.left >= 1.0
        up.append(is_up)
        if is_up:
            ration.take(1.0)
    assert all(up[:15])
    assert sum(up[30:]) == pytest.approx(0.15 * 70, abs=2)
