"""The policy's laws, on made-up arms with exact numbers, and what it decides with the shipped defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from router.arms import Arm, Capabilities, Effort, Price
from router.decision import Decision, Exclusion, NoArmError, Reason
from router.difficulty import Assessment, Forecast, StructuralHeuristic
from router.doubt import Doubt, DoubtKind
from router.offer import Metric
from router.policy import RoutingPolicy
from router.pricing import Draws, Pricing
from router.propensity import propensities
from router.replay import replayed
from router.request import RequestView
from router.session import Recollection

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
    is_supported: bool = True
    watched: tuple[str, ...] = ()

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> dict[str, Forecast]:
        return {
            arm.name: Forecast(
                success_probability=1 - self.h * self.misses[arm.name],
                num_output_tokens=1e6,
                is_supported=self.is_supported,
            )
            for arm in arms
        }

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        return Assessment(forecasts=self.forecast(view, arms))

    def contributions(self, view: RequestView) -> dict[str, float]:
        return {"h": self.h}


@dataclass(frozen=True)
class Case:
    """Arms with their misses and what each takes, a floor, a metric, and what the client allows."""

    arms: tuple[Arm, ...]
    misses: Mapping[str, float]
    seconds: Mapping[str, float]
    floor: float
    metric: Metric
    view: RequestView

    def decide(
        self, *, h: float, price_of_compute: float, is_supported: bool = True, **more: Any
    ) -> Decision:
        return RoutingPolicy(Grid(h, self.misses, is_supported=is_supported), self.floor).decide(
            self.view, self.arms, self.pricing(price_of_compute), **more
        )

    def pricing(self, price_of_compute: float, spread: float = 0.0) -> Pricing:
        return Pricing(
            price_of_compute=price_of_compute, metric=self.metric, engine_seconds=self.seconds, spread=spread
        )

    def price(self, *, h: float, price_of_compute: float, **more: Any) -> float:
        """What the chosen arm is expected to take of what the metric counts."""
        return self.metric.price(self.decide(h=h, price_of_compute=price_of_compute, **more).expected)


sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)
prices_of_compute = st.integers(0, 64).map(lambda n: n / 16)
terms = st.fixed_dictionaries(
    {
        "is_supported": st.booleans(),
        "doubt": st.builds(lambda most: Doubt(max_price=most), st.integers(0, 8).map(float) | st.just(inf)),
    }
)


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
        seconds={arm.name: draw(st.integers(0, 8).map(float)) for arm in arms},
        floor=draw(sixty_fourths),
        metric=draw(st.sampled_from(Metric)),
        view=replace(HI, max_cost=max_cost, min_quality=draw(st.none() | sixty_fourths)),
    )


@given(cases(), sixty_fourths, sixty_fourths, prices_of_compute, terms)
def test_harder_never_gets_a_cheaper_arm(
    case: Case, one: float, other: float, price_of_compute: float, terms: Mapping[str, Any]
) -> None:
    """At one λ, floor, limit and doubt, a harder request's arm takes at least what an easier one's does."""
    easy, hard = sorted((one, other))
    assert case.price(h=easy, price_of_compute=price_of_compute, **terms) <= case.price(
        h=hard, price_of_compute=price_of_compute, **terms
    )


@given(cases(), sixty_fourths, prices_of_compute, prices_of_compute, terms)
def test_dearer_compute_never_takes_more(
    case: Case, h: float, one: float, other: float, terms: Mapping[str, Any]
) -> None:
    """Raising λ never raises what a decision is expected to take, in the metric that λ prices, in doubt or not."""
    low, high = sorted((one, other))
    assert case.price(h=h, price_of_compute=high, **terms) <= case.price(h=h, price_of_compute=low, **terms)


@given(cases(), sixty_fourths, prices_of_compute)
def test_doubt_goes_to_the_strongest_arm_that_is_open(case: Case, h: float, price_of_compute: float) -> None:
    """Whatever λ and the forecast, a request that the model has not seen the like of gets the strongest arm that is
    up and that the client can afford, and it alone is offered; with one arm open there is nothing to doubt."""
    usual = case.decide(h=h, price_of_compute=price_of_compute)
    decision = case.decide(h=h, price_of_compute=price_of_compute, is_supported=False)
    strengths = {arm.name: (arm.strength, arm.effort) for arm in case.arms}
    open_to = [c.arm for c in usual.candidates if c.excluded is None]
    assert strengths[decision.arm] == max(strengths[arm] for arm in open_to)
    assert (decision.propensity, len(decision.offer.arms)) == (1.0, 1)
    if len(open_to) == 1:
        assert replace(decision, artifact_version=usual.artifact_version) == usual
    else:
        assert decision.reason is Reason.OUT_OF_DISTRIBUTION
        left = {c.arm for c in decision.candidates if c.excluded is Exclusion.DOUBT}
        assert left == set(open_to) - {decision.arm}


@given(cases(), sixty_fourths, prices_of_compute, st.integers(0, 8))
def test_doubt_without_the_means_is_set_aside(
    case: Case, h: float, price_of_compute: float, max_price: int
) -> None:
    """Where the ration does not reach for the strongest arm, the request is decided by value, as if it were known."""
    usual = case.decide(h=h, price_of_compute=price_of_compute)
    decision = case.decide(
        h=h, price_of_compute=price_of_compute, is_supported=False, doubt=Doubt(max_price=max_price)
    )
    if decision.reason is Reason.OUT_OF_DISTRIBUTION:
        assert case.metric.price(decision.expected) <= max_price
    else:
        assert decision == usual


@given(cases(), sixty_fourths, st.integers(1, 64).map(lambda n: n / 16))
def test_a_conservative_router_never_takes_less(case: Case, h: float, usual: float) -> None:
    """Where λ is lowered for doubt, nothing gets a cheaper arm, and what gets a dearer one says why."""
    lowered = replace(case.pricing(usual / 2), undoubted_price_of_compute=usual)
    policy = RoutingPolicy(Grid(h, case.misses), case.floor)
    before = policy.decide(case.view, case.arms, case.pricing(usual))
    doubt = Doubt(kinds=(DoubtKind.SCORE,))
    after = policy.decide(case.view, case.arms, lowered, doubt=doubt)
    assert case.metric.price(after.expected) >= case.metric.price(before.expected)
    assert after.doubts == (DoubtKind.SCORE,)
    assert before.doubts == ()
    if after.arm != before.arm:
        assert after.reason in {Reason.CONSERVATIVE, Reason.MAX_COST}
    else:
        assert after.reason is not Reason.CONSERVATIVE
    assert after == policy.decide(case.view, case.arms, lowered, doubt=doubt)


@given(cases(), sixty_fourths, prices_of_compute, terms)
def test_forecasts_made_before_decide_the_same(
    case: Case, h: float, price_of_compute: float, terms: Mapping[str, Any]
) -> None:
    """A decision on forecasts that were handed in is that on the model's own."""
    made = Grid(h, case.misses, is_supported=terms["is_supported"]).forecast(case.view, case.arms)
    own = case.decide(h=h, price_of_compute=price_of_compute, **terms)
    assert case.decide(h=0.5, price_of_compute=price_of_compute, **terms, forecasts=made) == own


@given(cases(), sixty_fourths, prices_of_compute)
def test_excluded_is_never_chosen_and_every_arm_is_accounted_for(
    case: Case, h: float, price_of_compute: float
) -> None:
    """The chosen arm has nothing against it, and each arm appears once, in order; the offer is of those left."""
    decision = case.decide(h=h, price_of_compute=price_of_compute)
    assert [c.arm for c in decision.candidates] == [arm.name for arm in case.arms]
    (chosen,) = (c for c in decision.candidates if c.arm == decision.arm)
    assert chosen.excluded is None
    assert (chosen.tier, chosen.expected) == (decision.tier, decision.expected)
    assert len(decision.offer.arms) == sum(c.excluded is None for c in decision.candidates)
    assert decision.offer.arms[decision.position].expected == decision.expected


@given(
    cases(),
    sixty_fourths,
    prices_of_compute,
    st.sampled_from([0.0, 0.3]),
    st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True)),
)
def test_replay_is_identical(
    case: Case, h: float, price_of_compute: float, share: float, uniforms: tuple[float, float]
) -> None:
    """The same numbers decide the same in every field; what is written down of them gives the same arm and chances."""
    policy = RoutingPolicy(Grid(h, dict(case.misses)), case.floor, share)
    pricing = case.pricing(price_of_compute, spread=0.1)
    draws = Draws(price=uniforms[0], exploration=uniforms[1])
    first, second = (policy.decide(case.view, case.arms, pricing, draws=draws) for _ in range(2))
    assert first == second
    again = replayed(first.offer, first.terms, price_of_compute=first.price_of_compute, lot=first.lot)
    assert (again.position, again.chances) == (first.position, first.chances)
    assert again.chance == first.propensity
    assert first.chances == pytest.approx(propensities(first.offer, first.terms), abs=1e-6)


@given(cases(), sixty_fourths, prices_of_compute, st.sampled_from([0.0, 0.25]))
@settings(max_examples=30, deadline=None)
def test_propensity_is_the_share_of_draws(
    case: Case, h: float, price_of_compute: float, exploration_share: float
) -> None:
    """Over all draws, an arm is chosen as often as the propensity recorded with it says."""
    policy = RoutingPolicy(Grid(h, case.misses), case.floor, exploration_share)
    pricing = case.pricing(price_of_compute, spread=0.5)
    num_draws = 16
    middles = [(i + 0.5) / num_draws for i in range(num_draws)]
    chosen = [
        policy.decide(case.view, case.arms, pricing, draws=Draws(price=price, exploration=exploration))
        for price in middles
        for exploration in (middles if exploration_share else [1.0])
    ]
    for decision in chosen:
        share = sum(other.arm == decision.arm for other in chosen) / len(chosen)
        assert decision.propensity == pytest.approx(share, abs=1.5 / num_draws)


@given(cases(), sixty_fourths, sixty_fourths, prices_of_compute, st.floats(0, 1))
def test_memory_of_a_harder_turn_never_gets_a_cheaper_arm(
    case: Case, one: float, other: float, price_of_compute: float, weight: float
) -> None:
    """A session that remembers a harder turn takes at least what the turn by itself would, and says so."""
    easy, hard = sorted((one, other))
    remembered = {arm.name: 1 - hard * case.misses[arm.name] for arm in case.arms}
    alone = case.decide(h=easy, price_of_compute=price_of_compute)
    held = case.decide(
        h=easy,
        price_of_compute=price_of_compute,
        recollection=Recollection(probabilities=remembered, weight=weight),
    )
    assert case.metric.price(held.expected) >= case.metric.price(alone.expected)
    # Within the floating-point error of the mixture: a tie may fall either way.
    if held.arm != alone.arm:
        assert held.reason in {Reason.SESSION_MEMORY, Reason.MAX_COST}
    assert [c.success_probability for c in held.candidates] == [
        c.success_probability for c in alone.candidates
    ]


@given(cases(), sixty_fourths, prices_of_compute, st.integers(0, 4))
def test_a_tool_loop_stays_on_its_arm(case: Case, h: float, price_of_compute: float, number: int) -> None:
    """A request in a tool loop gets the arm that began it where that is left, at any λ; any other request does not."""
    pinned = f"arm{number}"
    usual = case.decide(h=h, price_of_compute=price_of_compute)
    recollection = Recollection(pinned_arm=pinned)
    assert case.decide(h=h, price_of_compute=price_of_compute, recollection=recollection) == usual
    looping = replace(case, view=replace(case.view, is_tool_loop=True))
    decision = looping.decide(h=h, price_of_compute=price_of_compute, recollection=recollection)
    is_open = any(c.arm == pinned and c.excluded is None for c in usual.candidates)
    assert decision.arm == (pinned if is_open else usual.arm)
    if is_open:
        assert decision.propensity == 1.0
        assert len(decision.offer.arms) == 1


WEAK, STRONG = make_arm("weak", 0, 1), make_arm("strong", 1, 4)
GRID = Grid(0.5, {"weak": 1.0, "strong": 0.25})  # p = 0.5 and 0.875
NO_TOOLS = Capabilities(context_tokens=4096, tools=False)
FREE = Pricing(price_of_compute=0.0)


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
    policy = RoutingPolicy(GRID, floor)
    decision = policy.decide(replace(HI, **view), arms, Pricing(price_of_compute=price_of_compute))
    assert (decision.reason, decision.arm) == (reason, arm)


def test_no_reason_is_without_a_test() -> None:
    """The table above has a row for each member of the closed list."""
    (mark,) = (mark for mark in test_each_reason.pytestmark if mark.name == "parametrize")
    assert {row[0] for row in mark.args[1]} | {
        Reason.SESSION_MEMORY,
        Reason.TOOL_LOOP_PIN,
        Reason.EXPLORATION,
        Reason.OUT_OF_DISTRIBUTION,
        Reason.CONSERVATIVE,
        Reason.ESCALATION,
    } == set(Reason)


def test_the_past_and_the_lot_have_their_reasons() -> None:
    """What a memory, a pin and a lot change is named after them, and the propensity is that of the lot."""
    cheap = Pricing(price_of_compute=0.2)
    policy = RoutingPolicy(Grid(0.5, {"weak": 0.5, "strong": 0.25}), exploration_share=0.1)
    arms = (WEAK, STRONG)
    assert policy.decide(HI, arms, cheap).arm == "weak"
    hard = Recollection(probabilities={"weak": 0.0, "strong": 1.0}, weight=0.7)
    decision = policy.decide(HI, arms, cheap, recollection=hard)
    assert (decision.arm, decision.reason) == ("strong", Reason.SESSION_MEMORY)
    pin = Recollection(pinned_arm="strong")
    decision = policy.decide(replace(HI, is_tool_loop=True), arms, cheap, recollection=pin)
    assert (decision.arm, decision.reason, decision.propensity) == ("strong", Reason.TOOL_LOOP_PIN, 1.0)
    assert decision.candidates[0].excluded is Exclusion.PINNED
    decision = policy.decide(HI, arms, cheap, draws=Draws(exploration=0.07))
    assert (decision.arm, decision.reason) == ("strong", Reason.EXPLORATION)
    assert decision.propensity == pytest.approx(0.05)
    decision = policy.decide(HI, arms, cheap, draws=Draws(exploration=0.5))
    assert (decision.arm, decision.reason) == ("weak", Reason.BEST_VALUE)
    assert decision.propensity == pytest.approx(0.95)


def test_the_lot_respects_the_quality_asked_for() -> None:
    """No arm below the floor is drawn; with one arm above it there is nothing to draw."""
    policy = RoutingPolicy(GRID, exploration_share=1.0)
    decision = policy.decide(replace(HI, min_quality=0.8), (WEAK, STRONG), FREE, draws=Draws(exploration=0.0))
    assert (decision.arm, decision.propensity) == ("strong", 1.0)


@pytest.mark.parametrize(
    ("metric", "arm"),
    [
        (Metric.COST_PER_REQUEST, "weak"),  # 0.375 more for 3 of money
        (Metric.COST_PER_HOUR, "weak"),
        (Metric.FULL_SHARE, "strong"),  # 0.375 more for 1 request of the strongest tier
        (Metric.ENGINE_SECONDS_PER_REQUEST, "strong"),  # 0.375 more for 0.5 s
    ],
)
def test_each_metric_has_its_own_price(metric: Metric, arm: str) -> None:
    """At λ = 0.3 per unit it is the metric that says whether going up is worth it."""
    pricing = Pricing(price_of_compute=0.3, metric=metric, engine_seconds={"weak": 1.0, "strong": 1.5})
    decision = RoutingPolicy(GRID).decide(HI, (WEAK, STRONG), pricing)
    assert (decision.arm, decision.metric) == (arm, metric)
    assert [c.expected.full_share for c in decision.candidates] == [0.0, 1.0]


def test_what_is_down_curtails_the_offer() -> None:
    """Candidates that are excluded are not in the offer; one that is down says that it tells nothing of what comes."""
    both = RoutingPolicy(GRID).decide(HI, (WEAK, STRONG), FREE)
    assert (len(both.offer.arms), both.position, both.offer.is_curtailed) == (2, 1, False)
    one = RoutingPolicy(GRID).decide(HI, (WEAK, replace(STRONG, is_available=False)), FREE)
    assert (len(one.offer.arms), one.position, one.offer.is_curtailed) == (1, 0, True)


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
        RoutingPolicy(GRID).decide(replace(HI, **view), arms, FREE)
    assert (caught.value.param, caught.value.exclusions) == (param, exclusions)


def test_cost_is_bounded_by_max_tokens_and_multiplied_by_n() -> None:
    """Three answers of at most 10 tokens at 4 a million, and a prompt of 16.5 tokens at 2 a million."""
    arm = replace(WEAK, price=Price(input=2, output=4))
    view = replace(HI, max_output_tokens=10, num_choices=3)
    assert RoutingPolicy(GRID).decide(view, (arm,), FREE).expected.cost == pytest.approx(
        (2 * 16.5 + 4 * 30) / 1e6
    )


FAST = replace(WEAK, name="fast", tier="fast", price=Price(input=0.2, output=0.8))
FULL = replace(STRONG, name="full", tier="full", price=Price(input=1.0, output=4.0))


@pytest.mark.parametrize("price_of_compute", [200.0, DEFAULT_PRICE_OF_COMPUTE, 700.0])
def test_defaults_send_small_talk_fast_and_hard_tasks_full(price_of_compute: float) -> None:
    """With the heuristic and the shipped prices and λ, with room to both sides, the obvious cases go where
    they should."""
    policy, pricing = RoutingPolicy(StructuralHeuristic()), Pricing(price_of_compute=price_of_compute)
    for text in EASY:
        view = replace(HI, turns=(text,), num_chars=len(text))
        assert policy.decide(view, (FAST, FULL), pricing).arm == "fast", text
    for text in HARD:
        for turns in ((text,), (text, "continue"), (text.upper(),)):
            view = replace(HI, turns=turns, num_chars=sum(map(len, turns)))
            assert policy.decide(view, (FAST, FULL), pricing).arm == "full", turns


@given(st.lists(st.sampled_from(HARD[0].split()), max_size=25), st.integers(1, 2000))
def test_more_of_a_task_never_gets_a_cheaper_arm(words: list[str], price_of_compute: int) -> None:
    """With the heuristic, at equal length and output, a task with more to it goes at least as high."""
    policy, pricing = RoutingPolicy(StructuralHeuristic()), Pricing(price_of_compute=float(price_of_compute))
    fixed = replace(HI, num_chars=500, max_output_tokens=8)
    part = replace(fixed, turns=(" ".join(words),))
    whole = replace(fixed, turns=(" ".join(words + HARD[1].split()),))
    costs = [policy.decide(view, (FAST, FULL), pricing).expected.cost for view in (part, whole)]
    assert costs == sorted(costs)
