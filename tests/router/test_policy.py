"""The policy's laws, on made-up arms with exact numbers, and what it decides with the shipped defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from router.arms import Arm, Capabilities, Effort, Price
from router.decision import Exclusion, NoArmError, Reason
from router.difficulty import Forecast, StructuralHeuristic
from router.policy import RoutingPolicy
from router.request import RequestView

DEFAULT_PRICE_OF_COMPUTE = 500.0
HI = RequestView(endpoint="chat", model="auto", turns=("hi",), num_chars=2)
HARD = (
    "Prove that the sum of the first n odd numbers is n^2, then derive a closed formula for the sum of their squares, "
    "and compute it for n = 37. Show each step.",
    "Implement a thread-safe LRU cache in Python with O(1) get and put, then write unit tests that show that there is "
    "no deadlock, and prove the complexity of each operation.",
    "A train leaves A at 9:00 at 80 km/h and another leaves B, 300 km away, at 9:30 at 100 km/h. When do they meet? "
    "Then compute how much later it would be if the second first waited 15 minutes at each of 3 stations.",
)
EASY = ("hi", "Thanks, that helped a lot!", "What is the capital of France?", "What is 2+2?", "Good morning!")


def make_arm(name: str, strength: int, cost: int = 0, **more: Any) -> Arm:
    """An arm that costs `cost` a request with `Grid`: exactly so, to keep float error out of the laws."""
    fields: dict[str, Any] = {"tier": name, "capabilities": Capabilities(context_tokens=4096), **more}
    return Arm(name=name, strength=strength, price=Price(input=0, output=cost), **fields)


@dataclass(frozen=True)
class Grid:
    """p = 1 − h·miss, all in 64ths, and a million tokens an answer: every number is exact."""

    h: float
    misses: Mapping[str, float]
    version: str = "grid"

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> dict[str, Forecast]:
        return {
            arm.name: Forecast(success_probability=1 - self.h * self.misses[arm.name], num_output_tokens=1e6)
            for arm in arms
        }

    def contributions(self, view: RequestView) -> dict[str, float]:
        return {"h": self.h}


@dataclass(frozen=True)
class Case:
    """Arms with their misses, a floor, and what the client allows."""

    arms: tuple[Arm, ...]
    misses: Mapping[str, float]
    floor: float
    view: RequestView

    def cost(self, *, h: float, price_of_compute: float) -> float:
        model = Grid(h, self.misses)
        policy = RoutingPolicy(model, price_of_compute=price_of_compute, quality_floor=self.floor)
        return policy.decide(self.view, self.arms).expected_cost


sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)
prices_of_compute = st.integers(0, 64).map(lambda n: n / 16)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    num_arms = draw(st.integers(1, 5))
    arms = tuple(
        make_arm(
            f"arm{i}", draw(st.integers(0, 3)), draw(st.integers(0, 8)), is_available=draw(st.booleans())
        )
        for i in range(num_arms)
    )
    max_cost = draw(st.none() | st.integers(0, 8))
    assume(any(arm.is_available and (max_cost is None or arm.price.output <= max_cost) for arm in arms))
    return Case(
        arms=arms,
        misses={arm.name: draw(sixty_fourths) for arm in arms},
        floor=draw(sixty_fourths),
        view=replace(HI, max_cost=max_cost, min_quality=draw(st.none() | sixty_fourths)),
    )


@given(cases(), sixty_fourths, sixty_fourths, prices_of_compute)
def test_harder_never_gets_a_cheaper_arm(
    case: Case, one: float, other: float, price_of_compute: float
) -> None:
    """At the same λ, floor and limits, a harder request's arm costs at least an easier one's."""
    easy, hard = sorted((one, other))
    assert case.cost(h=easy, price_of_compute=price_of_compute) <= case.cost(
        h=hard, price_of_compute=price_of_compute
    )


@given(cases(), sixty_fourths, prices_of_compute, prices_of_compute)
def test_dearer_compute_never_raises_cost(case: Case, h: float, one: float, other: float) -> None:
    """Raising λ never raises the expected cost of a decision."""
    low, high = sorted((one, other))
    assert case.cost(h=h, price_of_compute=high) <= case.cost(h=h, price_of_compute=low)


@given(cases(), sixty_fourths, prices_of_compute)
def test_excluded_is_never_chosen_and_every_arm_is_accounted_for(
    case: Case, h: float, price_of_compute: float
) -> None:
    """The chosen arm has nothing against it, and each arm appears once, in order."""
    decision = RoutingPolicy(Grid(h, case.misses), price_of_compute, case.floor).decide(case.view, case.arms)
    assert [c.arm for c in decision.candidates] == [arm.name for arm in case.arms]
    (chosen,) = (c for c in decision.candidates if c.arm == decision.arm)
    assert chosen.excluded is None
    assert (chosen.tier, chosen.expected_cost) == (decision.tier, decision.expected_cost)


@given(cases(), sixty_fourths, prices_of_compute)
def test_replay_is_identical(case: Case, h: float, price_of_compute: float) -> None:
    """A new policy with the same numbers decides the same about the same view and arms, in every field."""
    first, second = (
        RoutingPolicy(Grid(h, dict(case.misses)), price_of_compute, case.floor).decide(case.view, case.arms)
        for _ in range(2)
    )
    assert first == second


WEAK, STRONG = make_arm("weak", 0, 1), make_arm("strong", 1, 4)
GRID = Grid(0.5, {"weak": 1.0, "strong": 0.25})  # p = 0.5 and 0.875
NO_TOOLS = Capabilities(context_tokens=4096, tools=False)


@pytest.mark.parametrize(
    ("reason", "arm", "price_of_compute", "floor", "view", "arms"),
    [
        (Reason.BEST_VALUE, "weak", 0.2, 0.0, {}, (WEAK, STRONG)),
        (Reason.BEST_VALUE, "strong", 0.1, 0.0, {}, (WEAK, STRONG)),
        (Reason.BEST_VALUE, "strong", 0.125, 0.0, {}, (STRONG, WEAK)),  # a tie: 0.375 = 0.5 − 0.125
        (Reason.ONLY_CAPABLE, "weak", 0.0, 0.0, {}, (WEAK,)),
        (
            Reason.ONLY_CAPABLE,
            "weak",
            0.0,
            0.0,
            {"num_tools": 1},
            (WEAK, replace(STRONG, capabilities=NO_TOOLS)),
        ),
        (Reason.ONLY_AVAILABLE, "weak", 0.0, 0.0, {}, (WEAK, replace(STRONG, is_available=False))),
        (Reason.CLIENT_MODEL, "weak", 0.0, 0.9, {"model": "weak"}, (WEAK, STRONG)),
        (Reason.CLIENT_ARM, "weak", 0.0, 0.9, {"wanted_arm": "weak"}, (WEAK, STRONG)),
        (Reason.CLIENT_SERVICE_TIER, "weak", 0.0, 0.9, {"service_tier": "flex"}, (WEAK, STRONG)),
        (Reason.CLIENT_SERVICE_TIER, "strong", 9.0, 0.0, {"service_tier": "priority"}, (WEAK, STRONG)),
        (Reason.QUALITY_FLOOR, "strong", 9.0, 0.8, {}, (WEAK, STRONG)),
        (Reason.QUALITY_FLOOR, "strong", 9.0, 0.95, {}, (WEAK, STRONG)),  # neither reaches it: the likeliest
        (Reason.QUALITY_FLOOR, "strong", 9.0, 0.0, {"min_quality": 0.8}, (WEAK, STRONG)),
        (Reason.MAX_COST, "weak", 0.0, 0.0, {"max_cost": 2.0}, (WEAK, STRONG)),
        (Reason.BEST_VALUE, "weak", 0.2, 0.0, {"max_cost": 2.0}, (WEAK, STRONG)),
        (
            Reason.BEST_VALUE,
            "weak",
            0.0,
            0.0,
            {"max_effort": Effort.LOW},
            (WEAK, replace(STRONG, effort=Effort.HIGH)),
        ),
    ],
)
def test_each_reason(
    reason: Reason,
    arm: str,
    price_of_compute: float,
    floor: float,
    view: dict[str, Any],
    arms: tuple[Arm, ...],
) -> None:
    """Every reason is reached, and only where it says the truth."""
    policy = RoutingPolicy(GRID, price_of_compute, floor)
    decision = policy.decide(replace(HI, **view), arms)
    assert (decision.reason, decision.arm) == (reason, arm)


def test_no_reason_is_without_a_test() -> None:
    """The table above has a row for each member of the closed list."""
    (mark,) = (mark for mark in test_each_reason.pytestmark if mark.name == "parametrize")
    assert {row[0] for row in mark.args[1]} == set(Reason)


@pytest.mark.parametrize(
    ("view", "arms", "param", "exclusions"),
    [
        ({"wanted_arm": "x"}, (WEAK,), "x-tierwise-arm", {"weak": Exclusion.CLIENT}),
        (
            {"max_cost": 0.5},
            (WEAK, STRONG),
            "x-tierwise-max-cost",
            dict.fromkeys(("weak", "strong"), Exclusion.MAX_COST),
        ),
        ({}, (replace(WEAK, is_available=False),), None, {"weak": Exclusion.UNAVAILABLE}),
        (
            {"model": "strong", "num_tools": 1},
            (WEAK, replace(STRONG, capabilities=NO_TOOLS)),
            "tools",
            {"weak": Exclusion.CLIENT, "strong": Exclusion.TOOLS},
        ),
        (
            {"parameters": frozenset({"seed", "store"})},
            (
                replace(
                    WEAK,
                    capabilities=Capabilities(
                        context_tokens=4096, unsupported_parameters=frozenset({"store"})
                    ),
                ),
            ),
            "store",
            {"weak": Exclusion.PARAMETER},
        ),
        (
            {"num_tools": 1},
            (replace(WEAK, is_available=False), replace(STRONG, capabilities=NO_TOOLS)),
            None,
            {"weak": Exclusion.UNAVAILABLE, "strong": Exclusion.TOOLS},
        ),
    ],
)
def test_no_arm_says_what_stands_in_the_way(
    view: dict[str, Any], arms: tuple[Arm, ...], param: str | None, exclusions: dict[str, Exclusion]
) -> None:
    """The refusal names the parameter that stands against the arm which came nearest, and every arm's
    exclusion."""
    with pytest.raises(NoArmError) as caught:
        RoutingPolicy(GRID, 0.0).decide(replace(HI, **view), arms)
    assert (caught.value.param, caught.value.exclusions) == (param, exclusions)


def test_cost_is_bounded_by_max_tokens_and_multiplied_by_n() -> None:
    """Three answers of at most 10 tokens at 4 a million, and a prompt of 16.5 tokens at 2 a million."""
    arm = replace(WEAK, price=Price(input=2, output=4))
    view = replace(HI, max_output_tokens=10, num_choices=3)
    assert RoutingPolicy(GRID, 0.0).decide(view, (arm,)).expected_cost == pytest.approx(
        (2 * 16.5 + 4 * 30) / 1e6
    )


FAST = replace(WEAK, name="fast", tier="fast", price=Price(input=0.2, output=0.8))
FULL = replace(STRONG, name="full", tier="full", price=Price(input=1.0, output=4.0))


@pytest.mark.parametrize("price_of_compute", [200.0, DEFAULT_PRICE_OF_COMPUTE, 700.0])
def test_defaults_send_small_talk_fast_and_hard_tasks_full(price_of_compute: float) -> None:
    """With the heuristic and the shipped prices and λ, with room to both sides, the obvious cases go where
    they should."""
    policy = RoutingPolicy(StructuralHeuristic(), price_of_compute)
    for text in EASY:
        assert policy.decide(replace(HI, turns=(text,), num_chars=len(text)), (FAST, FULL)).arm == "fast", (
            text
        )
    for text in HARD:
        for turns in ((text,), (text, "continue"), (text.upper(),)):
            view = replace(HI, turns=turns, num_chars=sum(map(len, turns)))
            assert policy.decide(view, (FAST, FULL)).arm == "full", turns


@given(st.lists(st.sampled_from(HARD[0].split()), max_size=25), st.integers(1, 2000))
def test_more_of_a_task_never_gets_a_cheaper_arm(words: list[str], price_of_compute: int) -> None:
    """With the heuristic, at equal length and output, a task with more to it goes at least as high."""
    policy = RoutingPolicy(StructuralHeuristic(), float(price_of_compute))
    fixed = replace(HI, num_chars=500, max_output_tokens=8)
    part = replace(fixed, turns=(" ".join(words),))
    whole = replace(fixed, turns=(" ".join(words + HARD[1].split()),))
    costs = [policy.decide(view, (FAST, FULL)).expected_cost for view in (part, whole)]
    assert costs == sorted(costs)
