"""Latencies of a request, worked by hand."""

from __future__ import annotations

import dataclasses

import pytest

from loadtests.timeline import Timeline

STREAM = Timeline(
    scheduled_s=10.0,
    is_streaming=True,
    sent_s=10.25,
    is_reused_connection=True,
    headers_s=10.3,
    token_times_s=(10.5, 10.75, 11.5),
    ended_s=11.5,
    status=200,
    error=None,
    num_output_tokens=5,
)


def test_latencies_count_from_the_scheduled_moment() -> None:
    """The quarter of a second for which the generator was late is in every one of them."""
    assert STREAM.ttft_s == 0.5
    assert STREAM.e2e_s == 1.5
    assert STREAM.send_lateness_s == 0.25


def test_gaps_are_between_events_and_tpot_is_per_token() -> None:
    """Three events have two gaps; TPOT divides by the tokens after the first, as usage counts them: (1.5 − 0.5) / 4."""
    assert STREAM.itl_s == pytest.approx((0.25, 0.75))
    assert STREAM.tpot_s == pytest.approx(0.25)


@pytest.mark.parametrize("num_output_tokens", [None, 0, 1])
def test_tpot_is_undefined_below_two_tokens(num_output_tokens: int | None) -> None:
    """One token has no gap, and without usage nobody knows how many there were."""
    assert dataclasses.replace(STREAM, num_output_tokens=num_output_tokens).tpot_s is None


def test_what_never_happened_is_none() -> None:
    """A request that ended before it was sent has neither lateness nor first token."""
    nothing = dataclasses.replace(
        STREAM, sent_s=None, headers_s=None, token_times_s=(), status=None, error="refused"
    )
    assert (nothing.ttft_s, nothing.send_lateness_s, nothing.itl_s, nothing.tpot_s) == (None, None, (), None)
