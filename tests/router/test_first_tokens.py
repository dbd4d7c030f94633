"""Tests of router.first_tokens: what is read of an engine's answer, and kept."""

from __future__ import annotations

from typing import Any

import pytest

from router.first_tokens import MAX_TOKENS, FirstTokens, of_content


def entry(logprob: float, *top: float) -> dict[str, Any]:
    return {
        "token": "x",
        "logprob": logprob,
        "top_logprobs": [{"token": "y", "logprob": each} for each in top],
    }


def test_margins_are_between_the_two_likeliest() -> None:
    """The token that was taken need not be the likeliest, and alternatives may come in any order."""
    tokens = of_content([entry(-2.0, -0.5, -2.0), entry(-0.1, -3.0, -0.1, -5.0)])
    assert tokens.logprobs == (-2.0, -0.1)
    assert tokens.margins == pytest.approx((1.5, 2.9))


def test_it_ends_where_alternatives_do() -> None:
    """A token without a second has no margin, and what follows it is not the beginning any more."""
    assert len(of_content([entry(-1.0, -1.0, -2.0), entry(-1.0, -1.0), entry(-1.0, -1.0, -2.0)])) == 1
    assert len(of_content([])) == 0


def test_round_trip() -> None:
    """What is kept is rounded and cut, and reads back as it was written."""
    long = FirstTokens(logprobs=(-0.12345,) * 40, margins=(1.23456,) * 40)
    kept = FirstTokens.from_members(long.as_members())
    assert kept == FirstTokens(logprobs=(-0.123,) * MAX_TOKENS, margins=(1.235,) * MAX_TOKENS)
    assert FirstTokens.from_members(kept.as_members()) == kept


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "version 2"),
        ({"more": 1}, "more"),
        ({"margins": [1.0]}, "log-probability and a margin"),
        ({"margins": ["1", "2"]}, "'1' is no finite number"),
        ({"margins": [True, 1.0]}, "True is no finite number"),
        ({"margins": None}, "None is no list"),
    ],
)
def test_refused_members(change: dict[str, Any], told: str) -> None:
    """Members of another version, form or length are told."""
    members = FirstTokens(logprobs=(-1.0, -2.0), margins=(0.5, 0.1)).as_members()
    with pytest.raises(ValueError, match=told):
        FirstTokens.from_members({**members, **change})
