"""Tests of router.outcomes: rows, intervals and what arms share, by worked numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router.outcomes import OutcomeRow, Share, as_members, by_domain, cell, from_members, joint

ROW = OutcomeRow(
    prompt_id="p",
    domain="sums",
    level=0,
    prompt="1 + 1?",
    arm="fast",
    model="m",
    success=True,
    answer="2",
    num_input_tokens=5,
    num_output_tokens=1,
    cost=0.5,
    created_at=10.0,
)


def rows(*successes: tuple[str, str, bool]) -> list[OutcomeRow]:
    return [replace(ROW, prompt_id=prompt, arm=arm, success=success) for prompt, arm, success in successes]


def test_round_trip() -> None:
    """A row is its members, whole numbers for the cost included."""
    assert from_members(as_members(ROW)) == ROW
    assert from_members({**as_members(ROW), "cost": 0}).cost == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"success": 1}, "'success' is 1"),
        ({"level": True}, "'level' is True"),
        ({"arm": None}, "'arm' is None"),
        ({"cost": "1"}, "'cost' is '1'"),
        ({"more": 1}, "unknown members: more"),
    ],
)
def test_refused_members(change: dict[str, Any], told: str) -> None:
    """A member of another type, or one too many, is told by name; so is one too few."""
    with pytest.raises(ValueError, match=told):
        from_members({**as_members(ROW), **change})
    with pytest.raises(ValueError, match="no 'answer'"):
        from_members({name: value for name, value in as_members(ROW).items() if name != "answer"})


def test_interval() -> None:
    """Wilson's interval: 8 of 10 by hand, and sensible at the ends."""
    assert Share(num=8, num_all=10).interval == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert Share(num=0, num_all=10).interval == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert Share(num=10, num_all=10).interval == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert Share(num=0, num_all=0).interval == (0.0, 1.0)


def test_cells() -> None:
    """Counts, mean tokens and summed costs of each domain and arm."""
    table = [ROW, replace(ROW, prompt_id="q", success=False, num_output_tokens=4), replace(ROW, arm="full")]
    one = by_domain(table)["sums", "fast"]
    assert (one.success.num, one.success.num_all, one.mean_output_tokens, one.cost) == (1, 2, 2.5, 1.0)
    assert list(by_domain(table)) == [("sums", "fast"), ("sums", "full")]
    assert cell([]).success.value == 0.0


def test_joint() -> None:
    """Prompts are counted by which arms were right; one that an arm has not answered is left out."""
    table = rows(
        ("a", "fast", True), ("a", "full", True), ("b", "fast", True), ("b", "full", False),
        ("c", "fast", False), ("c", "full", False), ("d", "fast", True),
    )  # fmt: skip
    assert joint(table, ["fast", "full"]) == {("fast", "full"): 1, ("fast",): 1, (): 1}
