"""What-if estimates: unbiased though the model is wrong, intervals that hold, and no answer where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.counterfactual import Comparison, Hindsight, LoggedDecision, WhatIf
from router.offer import ArmOffer, Metric, Offer, Spend
from router.propensity import PolicyTerms, propensities
from router.support import Lack

LOGGED = PolicyTerms(metric=Metric.FULL_SHARE, price_of_compute=0.42, spread=0.1, exploration_share=0.2)
MORE_FULL = replace(LOGGED, price_of_compute=0.3, exploration_share=0.0)
LESS_FULL = replace(LOGGED, price_of_compute=0.5, exploration_share=0.0)
DEARER = 1.3
"""What answers cost, relative to what was expected."""


@dataclass(frozen=True)
class Kind:
    """A kind of request: what is offered, and the truth behind it."""

    offer: Offer
    success: tuple[float, float]
    cost: tuple[float, float]
    chances: tuple[float, ...]
    """Under the terms of the log."""


def kinds(num: int, *, bias: float, seed: int = 0, terms: PolicyTerms = LOGGED) -> list[Kind]:
    """Kinds whose forecasts are wrong by `bias`: fast is better than forecast, and full worse."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(num):
        h = rng.uniform()
        success, cost = (1 - 0.8 * h, 1 - 0.2 * h), (rng.lognormal(0, 0.5), 5 * rng.lognormal(0, 0.5))
        forecast = (max(0.0, success[0] - bias), min(1.0, success[1] + bias / 2))
        arms = tuple(
            ArmOffer(
                success_probability=forecast[i],
                expected=Spend(cost=cost[i], engine_seconds=0.0, full_share=float(i)),
            )
            for i in (0, 1)
        )
        offer = Offer(arms=arms)
        costs = (DEARER * cost[0], DEARER * cost[1])
        made.append(Kind(offer, success, costs, propensities(offer, terms)))
    return made


def logged(
    drawn: Sequence[Kind], rng: np.random.Generator, *, known_share: float = 0.5
) -> list[LoggedDecision]:
    """These requests as they were decided, with what came of them."""
    uniforms, factors = rng.random((len(drawn), 3)), rng.lognormal(-0.125, 0.5, len(drawn))
    log = []
    for kind, (lot, luck, grade), factor in zip(drawn, uniforms, factors, strict=True):
        chosen = int(lot < kind.chances[1])
        spend = Spend(cost=kind.cost[chosen] * factor, engine_seconds=0.0, full_share=float(chosen))
        log.append(
            LoggedDecision(
                offer=kind.offer,
                arms=("fast", "full"),
                chosen=chosen,
                propensities=kind.chances,
                realised=spend,
                success=float(luck < kind.success[chosen]) if grade < known_share else None,
            )
        )
    return log


def what_if(log: Sequence[LoggedDecision], terms: PolicyTerms) -> WhatIf:
    return Hindsight(log, terms.metric).at_price(
        terms.price_of_compute, spread=terms.spread, exploration_share=terms.exploration_share
    )


def truth(pool: Sequence[Kind], terms: PolicyTerms) -> tuple[float, float]:
    """Mean success and cost of the pool under `terms`."""
    chances = [propensities(kind.offer, terms) for kind in pool]
    success = np.mean([np.dot(row, kind.success) for row, kind in zip(chances, pool, strict=True)])
    cost = np.mean([np.dot(row, kind.cost) for row, kind in zip(chances, pool, strict=True)])
    return float(success), float(cost)


def holds(comparison: Comparison, value: float, before: float) -> tuple[bool, bool]:
    assert comparison.estimate is not None
    assert comparison.change is not None
    return (
        comparison.estimate.low <= value <= comparison.estimate.high,
        comparison.change.low <= value - before <= comparison.change.high,
    )


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of 200 logs with forecasts off by a tenth, the 95 % intervals of success and cost, and of their changes, under
    two other policies, hold the known truth in 90 to 99.5 % (three deviations of such a count are 4.6 %)."""
    pool = kinds(1000, bias=0.1)
    now = truth(pool, LOGGED)
    others = [
        (truth(pool, terms), [propensities(kind.offer, terms) for kind in pool])
        for terms in (MORE_FULL, LESS_FULL)
    ]
    held = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        picked = rng.integers(0, len(pool), 2500)
        log = logged([pool[i] for i in picked], rng, known_share=1.0)
        seen = Hindsight(log, Metric.FULL_SHARE)
        row: list[bool] = []
        for then, moved in others:
            answer = seen.compare([moved[i] for i in picked])
            row += (*holds(answer.success, then[0], now[0]), *holds(answer.cost, then[1], now[1]))
        held.append(row)
    shares = np.mean(held, axis=0)
    assert shares.min() >= 0.90
    assert shares.max() <= 0.995
    assert shares.mean() == pytest.approx(0.95, abs=0.02)


def test_it_is_unbiased_where_the_model_alone_is_not() -> None:
    """Over many logs the mean estimate is the truth, though full answers are graded more often than fast ones; the
    mean forecast is off by more than a point."""
    pool = kinds(1000, bias=0.1)
    success, cost = truth(pool, MORE_FULL)
    estimates = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        log = [
            decision if decision.chosen == 1 or rng.random() < 0.4 else replace(decision, success=None)
            for decision in logged([pool[i] for i in rng.integers(0, len(pool), 4000)], rng, known_share=1.0)
        ]
        answer = what_if(log, MORE_FULL)
        assert answer.success.estimate is not None
        assert answer.cost.estimate is not None
        estimates.append((answer.success.estimate.value, answer.cost.estimate.value))
    forecast = np.mean(
        [
            np.dot(propensities(kind.offer, MORE_FULL), [arm.success_probability for arm in kind.offer.arms])
            for kind in pool
        ]
    )
    means, errors = np.mean(estimates, axis=0), np.std(estimates, axis=0) / np.sqrt(40)
    assert abs(means[0] - success) < 3 * errors[0] < 0.005
    assert abs(means[1] - cost) < 3 * errors[1] < 0.1
    assert abs(forecast - success) > 0.01


def test_a_target_is_what_the_log_would_have_taken() -> None:
    """Held to a share of 0.2 in blocks, the estimate of what is taken is 0.2, and of success less than at 0.4."""
    pool = kinds(6000, bias=0.0, seed=3)
    log = logged(pool, np.random.default_rng(0), known_share=1.0)
    seen = Hindsight(log, Metric.FULL_SHARE)
    low, high = (seen.at_target(target, spread=0.1) for target in (0.2, 0.4))
    assert low.taken.estimate is not None
    assert low.taken.estimate.value == pytest.approx(0.2, abs=1e-6)
    assert low.success.estimate is not None
    assert high.success.estimate is not None
    assert low.success.estimate.value < high.success.estimate.value
    assert low.cost.change is not None
    assert high.cost.change is not None
    assert low.cost.change.high < 0 < high.cost.change.low


def test_the_lots_share_is_in_the_target() -> None:
    """With a fifth of requests drawn by lot the target is met all the same, and a request that no lot may decide is
    left to the rule."""
    pool = kinds(1000, bias=0.0, seed=3)
    log = logged(pool, np.random.default_rng(0), known_share=1.0)
    told = Hindsight(log, Metric.FULL_SHARE).at_target(0.3, spread=0.1, exploration_share=0.2)
    assert told.shares["full"] == pytest.approx(0.3, abs=1e-6)
    forced = Hindsight([replace(decision, is_forced=True) for decision in log], Metric.FULL_SHARE)
    by_rule = forced.at_price(0.42, spread=0.0, exploration_share=0.2)
    assert by_rule.shares == Hindsight(log, Metric.FULL_SHARE).at_price(0.42, spread=0.0).shares


def test_offers_of_different_lengths_stand_side_by_side() -> None:
    """Worked example: one request has both arms, drawn evenly, and the other full alone. At λ = ∞ half of the
    requests, the first, go to fast; the other half stays."""
    both = kinds(1, bias=0.0)[0].offer
    log = [
        LoggedDecision(offer=both, arms=("fast", "full"), chosen=1, propensities=(0.5, 0.5)),
        LoggedDecision(offer=Offer(arms=both.arms[1:]), arms=("full",), chosen=0, propensities=(1.0,)),
    ]
    told = Hindsight(log, Metric.FULL_SHARE).at_price(1e9, spread=0.0)
    assert (told.shares, told.logged_shares) == ({"fast": 0.5, "full": 0.5}, {"fast": 0.25, "full": 0.75})
    assert (told.moved_share, told.unsupported_share) == (0.25, 0)


def test_the_logged_policy_is_its_own_change_of_nothing() -> None:
    """Under the terms of the log nothing moves, every change is 0, and the estimate is the logged mean."""
    log = logged(kinds(500, bias=0.1), np.random.default_rng(0))
    answer = what_if(log, LOGGED)
    assert (answer.moved_share, answer.unsupported_share) == (0, 0)
    assert answer.shares == pytest.approx(answer.logged_shares)
    for comparison in (answer.success, answer.cost, answer.taken):
        assert comparison.lack is None
        assert comparison.estimate == comparison.logged
        assert comparison.logged is not None
        assert comparison.observed is not None
        assert comparison.logged.low < comparison.observed < comparison.logged.high
        assert comparison.change is not None
        assert (comparison.change.low, comparison.change.value, comparison.change.high) == (0, 0, 0)


def lacks(answer: WhatIf) -> tuple[Lack | None, Lack | None]:
    return answer.success.lack, answer.cost.lack


def test_without_exploration_there_is_no_support() -> None:
    """A log that never tried the other arm cannot say what would have come of it."""
    silent = replace(LOGGED, exploration_share=0.0)
    log = logged(kinds(3000, bias=0.0, terms=silent), np.random.default_rng(0))
    answer = what_if(log, MORE_FULL)
    assert lacks(answer) == (Lack.NO_SUPPORT, Lack.NO_SUPPORT)
    assert answer.unsupported_share > 0.1
    assert answer.success.estimate is None


def test_a_little_exploration_is_little_support() -> None:
    """With one request in a hundred drawn by lot, a few thousand are too few; ten times as many answer the cost."""
    rare = replace(LOGGED, exploration_share=0.02)
    for num, lack in ((3000, Lack.LITTLE_SUPPORT), (60_000, None)):
        pool = kinds(3000, bias=0.0, terms=rare)
        log = logged(pool * (num // 3000), np.random.default_rng(0), known_share=0.05)
        assert lacks(what_if(log, MORE_FULL)) == (Lack.LITTLE_SUPPORT, lack)


def test_few_outcomes_are_too_few() -> None:
    """Without grades there is no estimate of success, though the cost is known."""
    log = logged(kinds(6000, bias=0.0), np.random.default_rng(0), known_share=0.0)
    assert lacks(what_if(log, MORE_FULL)) == (Lack.TOO_FEW_OUTCOMES, None)


def test_the_interval_is_students() -> None:
    """Worked example: of a thousand costs ten are 100 and the rest nothing. Their kurtosis is 98, so the deviation has
    20.6 degrees of freedom, and t is 2.082 where the normal quantile is 1.960."""
    arm = ArmOffer(success_probability=0.5, expected=Spend(cost=0.0, engine_seconds=0.0, full_share=0.0))
    log = [
        LoggedDecision(
            offer=Offer(arms=(arm,)),
            arms=("fast",),
            chosen=0,
            propensities=(1.0,),
            realised=Spend(cost=100.0 if i < 10 else 0.0, engine_seconds=0.0, full_share=0.0),
        )
        for i in range(1000)
    ]
    estimate = what_if(log, LOGGED).cost.estimate
    assert estimate is not None
    assert estimate.value == pytest.approx(1.0)
    assert estimate.high - estimate.value == pytest.approx(
        2.082 * np.sqrt(100**2 * 0.01 * 0.99 / 999), rel=1e-3
    )


def test_an_empty_log_is_refused() -> None:
    """There is nothing to compare with."""
    with pytest.raises(ValueError, match="empty log"):
        Hindsight([], Metric.FULL_SHARE)


offers = st.builds(
    lambda arms, floor: Offer(
        arms=tuple(
            ArmOffer(success_probability=p, expected=Spend(cost=c, engine_seconds=0.0, full_share=0.0))
            for p, c in arms
        ),
        quality_floor=floor,
    ),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 9)), min_size=1, max_size=5),
    st.floats(0, 1),
)
all_terms = st.builds(
    PolicyTerms,
    metric=st.just(Metric.COST_PER_REQUEST),
    price_of_compute=st.floats(1e-3, 10),
    spread=st.just(0.0) | st.floats(0.01, 1),
    exploration_share=st.floats(0, 1),
)


@given(offers, all_terms)
def test_propensities_are_chances_and_never_below_the_floor(offer: Offer, terms: PolicyTerms) -> None:
    """They sum to 1; an arm below the floor has none while another reaches it; each that reaches it has its share."""
    chances = propensities(offer, terms)
    assert sum(chances) == pytest.approx(1)
    assert min(chances) >= 0
    lot = [arm.success_probability >= offer.quality_floor for arm in offer.arms]
    for chance, is_in_lot in zip(chances, lot, strict=True):
        if any(lot) and not is_in_lot:
            assert chance == 0
        if is_in_lot and sum(lot) > 1:
            assert chance >= terms.exploration_share / sum(lot) - 1e-12
