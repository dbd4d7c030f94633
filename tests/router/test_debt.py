"""The debt: bounded both ways, and let go of where λ could have done nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.debt import KEPT_S, Debt, Reach

SHARE = Reach(per_request=0.3, horizon=100.0, max_correction_share=0.4, per_second=None)
HOURLY = Reach(per_request=2.0, horizon=100.0, max_correction_share=0.4, per_second=10.0)


@given(st.floats(-1e9, 1e9), st.sampled_from([SHARE, HOURLY]))
def test_a_request_is_asked_for_no_more_than_its_allowance(owed: float, reach: Reach) -> None:
    """However much is owed, the target of a request moves by at most four tenths of it, either way."""
    debt = Debt(owed)
    assert abs(debt.correction(reach)) <= 0.4 * reach.per_request + 1e-12
    assert abs(debt.owed) <= reach.most + 1e-9


@pytest.mark.parametrize(
    ("owed", "correction", "kept"),
    [
        (5.0, 0.05, 5.0),  # repaid over a hundred requests
        (50.0, 0.12, 12.0),  # no more than is repaid at the allowance
        (-50.0, -0.12, -12.0),
    ],
)
def test_by_hand(owed: float, correction: float, kept: float) -> None:
    """Of a share of .3: a hundredth of the debt a request, at most .12 of it, and a debt of 12 requests at most."""
    debt = Debt(owed)
    assert debt.correction(SHARE) == pytest.approx(correction)
    assert debt.owed == pytest.approx(kept)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_an_hour_owes_is_kept_for_longer(sign: int) -> None:
    """Ten a second: at most 1,200 stay owed, or saved, of which a request repays its allowance of .8."""
    debt = Debt(sign * 1e6)
    assert debt.correction(HOURLY) == pytest.approx(sign * 0.8)
    assert debt.owed == pytest.approx(sign * 0.4 * 10 * KEPT_S)


@pytest.mark.parametrize(
    ("owed", "least", "greatest", "kept"),
    [
        (9.0, 0.25, 0.8, 5.0),  # λ can go .05 below the target, a hundred times
        (9.0, 0.35, 0.8, 0.0),  # λ cannot reach the target at all
        (-9.0, 0.1, 0.32, -2.0),
        (-9.0, 0.1, 0.2, 0.0),  # all that is worth it takes less than the target
        (-9.0, 0.35, 0.8, -9.0),
    ],
)
def test_what_lies_beyond_the_price_is_let_go(
    owed: float, least: float, greatest: float, kept: float
) -> None:
    """The debt is what can be saved over the horizon at the dearest λ, the credit what can be spent at the cheapest."""
    debt = Debt(owed)
    debt.confine(SHARE, least_price=least, greatest_price=greatest)
    assert debt.owed == pytest.approx(kept)


@pytest.mark.parametrize(
    ("owed", "least", "greatest"),
    [
        (500.0, 9.0, 20.0),  # during a burst no λ takes as little as the share of each second
        (-500.0, 0.1, 0.2),  # in a quiet time all that is worth buying takes less
    ],
)
def test_an_hours_account_outlasts_what_the_moment_can_do(owed: float, least: float, greatest: float) -> None:
    """Quiet times repay bursts, and bursts use what quiet times leave; of a request's share it is let go."""
    debt = Debt(owed)
    debt.confine(HOURLY, least_price=least, greatest_price=greatest)
    assert debt.owed == owed
    debt.confine(replace(HOURLY, per_second=None), least_price=least, greatest_price=greatest)
    assert debt.owed == 0.0
