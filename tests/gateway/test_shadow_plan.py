"""Which of two arms is graded, and with what chance."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from router.arms import Arm, Capabilities, Effort, Price
from serving.gateway.shadow_plan import propensity, weaker_of


def arm(name: str, strength: int, effort: Effort = Effort.NONE) -> Arm:
    return Arm(
        name=name,
        tier=name,
        price=Price(input=1.0, output=1.0),
        capabilities=Capabilities(context_tokens=100),
        strength=strength,
        effort=effort,
    )


ARMS = (arm("full", 2), arm("full-think", 2, Effort.MEDIUM), arm("twin", 2), arm("fast", 0), arm("mid", 1))


@pytest.mark.parametrize(
    ("first", "second", "weaker"),
    [
        ("fast", "full", "fast"),
        ("full", "fast", "fast"),
        ("full-think", "full", "full"),
        ("full", "twin", "twin"),
        ("mid", "full-think", "mid"),
    ],
)
def test_the_weaker_arm(first: str, second: str, weaker: str) -> None:
    """By tier, then by effort; of equals the one that the settings name later."""
    assert weaker_of(first, second, ARMS) == weaker


@pytest.mark.parametrize("chosen", ["full", "mid", "fast", "full-think"])
def test_the_propensity_is_how_often_it_happens(chosen: str) -> None:
    """Lots drawn many times grade each arm as often as is recorded."""
    rng, share, num_draws = random.Random(7), 0.4, 40_000
    others = [arm for arm in ARMS if arm.name != chosen]
    graded: Counter[str] = Counter()
    for _ in range(num_draws):
        if rng.random() < share:
            graded[weaker_of(chosen, rng.choice(others).name, ARMS)] += 1
    for name, count in graded.items():
        told = propensity(share, name, chosen, others, ARMS)
        assert told == pytest.approx(count / num_draws, abs=0.01)
