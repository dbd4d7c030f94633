"""The client's levers in headers are understood or refused, never ignored."""

from __future__ import annotations

import pytest

from serving.gateway.errors import ApiError
from serving.gateway.levers import MAX_SESSION_CHARS, Levers, read_levers, request_id_of


def test_levers_are_read() -> None:
    """Each header has its lever, and other headers are none of our business."""
    levers = read_levers(
        {
            "x-tierwise-arm": "full",
            "x-tierwise-max-cost": "0.002",
            "x-tierwise-min-quality": "1",
            "x-tierwise-session": "s",
            "content-type": "application/json",
        }
    )
    assert levers == Levers(wanted_arm="full", max_cost=0.002, min_quality=1.0, session="s")
    assert read_levers({}) == Levers()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-tierwise-max-cost", "-1"),
        ("x-tierwise-max-cost", "much"),
        ("x-tierwise-max-cost", "nan"),
        ("x-tierwise-max-cost", "inf"),
        ("x-tierwise-min-quality", "1.01"),
        ("x-tierwise-min-quality", ""),
        ("x-tierwise-session", "s" * (MAX_SESSION_CHARS + 1)),
        ("x-tierwise-arms", "full"),
    ],
)
def test_lever_that_cannot_be_understood_is_named(header: str, value: str) -> None:
    """A typo in a name and a number out of range are 400s that say which header."""
    with pytest.raises(ApiError) as refused:
        read_levers({header: value})
    assert (refused.value.status, refused.value.param) == (400, header)


@pytest.mark.parametrize("told", ["", "a b", "x" * 129, "line\nbreak", "é"])
def test_request_id_that_cannot_be_logged_safely_is_replaced(told: str) -> None:
    """A client cannot write into our log."""
    assert request_id_of({"x-request-id": told}, "fresh") == "fresh"


def test_request_id_of_the_client_is_kept() -> None:
    """One id from end to end."""
    assert request_id_of({"x-request-id": "req_1.a:b-c"}, "fresh") == "req_1.a:b-c"
    assert request_id_of({}, "fresh") == "fresh"
