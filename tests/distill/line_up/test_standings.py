"""What a line of the table says, by hand: score, speed, cost, and all that on what a router leaves to a model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from distill.line_up.entrants import Ready
from distill.line_up.exam import Answered
from distill.line_up.standings import Measured, left_to_weaker, standings


def entrant(label: str) -> Ready:
    return Ready(
        label=label,
        name=label,
        sha256=label,
        file=Path("x"),
        start=Path("x"),
        quantization="Q8_0",
        size_bytes=10,
        read_bytes=9,
    )


def answered(*scores: float, num_tokens: int = 4) -> Answered:
    return Answered(tuple(scores), (num_tokens,) * len(scores), 0)


FULL = {"a": answered(1, 1, 1, 0), "b": answered(1, 0, 1, 0)}
FAST = {"a": answered(1, 1, 0, 0, num_tokens=2), "b": answered(0, 0, 1, 0, num_tokens=2)}
ROUND = {"full": {1: 10.0, 16: 20.0}, "fast": {1: 30.0, 16: 50.0}}


def measured(**changes: object) -> Measured:
    kept: dict[str, object] = {
        "entrants": (entrant("full"), entrant("fast")),
        "answers": {"full": FULL, "fast": FAST},
        "rounds": {"llama.cpp": [ROUND] * 6},
        "gains": {"a": [0.4, 0.3, 0.2, 0.1], "b": [0.8, 0.7, 0.6, 0.5]},
    }
    return Measured(**{**kept, **changes})  # type: ignore[arg-type]


def test_a_line_by_hand() -> None:
    """Scores .625 and .375; four tokens at 20 a second and two at 50; costs over scores."""
    full, fast = standings(measured(), streams=16, num_draws=200)
    assert (full.score.value, fast.score.value) == (0.625, 0.375)
    assert fast.kept is not None
    assert fast.kept.value == pytest.approx(0.6)
    assert fast.differences["b"].value == -0.25
    assert (full.mean_tokens, fast.mean_tokens) == (4, 2)
    assert full.solved_s is not None
    assert fast.solved_s is not None
    assert full.solved_s.value == pytest.approx(4 / 20 / 0.625)
    assert fast.solved_s.value == pytest.approx(2 / 50 / 0.375)
    assert fast.cost_share is not None
    assert fast.cost_share.value == pytest.approx((2 / 50 / 0.375) / (4 / 20 / 0.625))
    assert fast.speeds["llama.cpp"][16].ratio == 2.5
    assert full.routed == ()


def test_the_reference_is_all_of_itself() -> None:
    """Whatever is drawn."""
    full, _ = standings(measured(), streams=16, num_draws=200)
    assert full.kept is not None
    assert (full.kept.low, full.kept.high) == (1.0, 1.0)
    assert full.cost_share is not None
    assert (full.cost_share.low, full.cost_share.high) == (1.0, 1.0)


def test_routed_by_hand() -> None:
    """Half go up, all of `b`: on `a` alone the fast model keeps 2 of 3, at 2/50 of 4/20 a request."""
    _, fast = standings(measured(), streams=16, shares=(0.5, 0.0), num_draws=200)
    half, none = fast.routed
    assert half.score is not None
    assert half.kept is not None
    assert half.cost_share is not None
    assert half.score.value == 0.5
    assert half.kept.value == pytest.approx(2 / 3)
    assert half.cost_share.value == pytest.approx(0.2)
    assert none.kept is not None
    assert none.kept.value == pytest.approx(3 / 5)


def test_equal_gains_go_in_part() -> None:
    """Of four alike, with room for one, each goes by a quarter; shares add up."""
    left = left_to_weaker({"a": [0.1, 0.1], "b": [0.1, 0.1, 0.9]}, 0.4)
    assert left["b"][2] == 0
    np.testing.assert_allclose([*left["a"], *left["b"][:2]], 0.75)
    assert sum(map(sum, left.values())) == pytest.approx(3)


def test_a_reference_that_solves_nothing() -> None:
    """Nothing is kept of it, and its task costs infinitely much."""
    nothing = {"a": answered(0, 0), "b": answered(0, 0)}
    full, fast = standings(
        measured(answers={"full": nothing, "fast": nothing}, gains={"a": [0, 0], "b": [0, 0]}),
        streams=16,
        shares=(0.5,),
        num_draws=50,
    )
    assert full.kept is None
    assert full.solved_s is not None
    assert math.isinf(full.solved_s.value)
    assert fast.cost_share is None
    assert fast.routed[0].kept is None


def test_without_engines_nothing_costs() -> None:
    """Where rates were not taken there is no cost, and no guess of one."""
    _, fast = standings(measured(rounds={}), streams=16, shares=(0.5,), num_draws=50)
    assert fast.solved_s is None
    assert fast.cost_share is None
    assert fast.routed[0].cost_share is None
    assert fast.routed[0].kept is not None
