"""The retry budget: retries stay a share of requests, whatever fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.upstream.retry import RetryBudget


def test_outage_spends_a_tenth() -> None:
    """Of 10,000 requests in one instant that all fail, a tenth and the full bucket are retried."""
    budget = RetryBudget(share=0.1, floor_per_s=0.0, max_tokens=10.0)
    retries = 0
    for _ in range(10_000):
        budget.note_request(0.0)
        retries += budget.try_spend(0.0)
    assert 1000 <= retries <= 1010


def test_quiet_gateway_can_retry() -> None:
    """With one request a minute, the floor pays for a retry of each."""
    budget = RetryBudget(share=0.1, floor_per_s=0.5, max_tokens=2.0)
    for minute in range(50):
        budget.note_request(60.0 * minute)
        assert budget.try_spend(60.0 * minute)


def test_savings_are_bounded() -> None:
    """A long quiet time buys no more than `max_tokens` retries."""
    budget = RetryBudget(share=0.1, floor_per_s=1.0, max_tokens=3.0)
    budget.note_request(0.0)
    assert [budget.try_spend(1e6) for _ in range(5)] == [True, True, True, False, False]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 2)), max_size=200))
def test_law(steps: list[tuple[bool, float]]) -> None:
    """Retries never exceed the full bucket, the share of requests and the floor over the time, together."""
    budget = RetryBudget(share=0.2, floor_per_s=0.5, max_tokens=4.0)
    now, num_requests, num_retries = 0.0, 0, 0
    for is_request, passed in steps:
        now += passed
        if is_request:
            budget.note_request(now)
            num_requests += 1
        else:
            num_retries += budget.try_spend(now)
        assert num_retries <= 4 + 0.2 * num_requests + 0.5 * now + 1e-6
