"""The controller's laws: replay, restart, rest, bounds, and who wins where the floor and the budget collide."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.budget import BudgetController, BudgetState, StateMismatchError
from router.budget_config import BudgetConfig, Mode
from router.debt import KEPT_S
from router.offer import ArmOffer, Metric, Offer, Spend
from router.plan import Winner
from router.staircase import staircase

CONFIG = BudgetConfig(metric=Metric.FULL_SHARE, target=0.3)
ZERO = Spend(cost=0.0, engine_seconds=0.0, full_share=0.0)


def offer(gain: float, *, fast: float = 0.5, **more: Any) -> Offer:
    """Two tiers: fast succeeds with `fast`, full with `gain` more; full costs 5 to fast's 1."""
    return Offer(
        arms=(
            ArmOffer(success_probability=fast, expected=Spend(cost=1.0, engine_seconds=0.5, full_share=0.0)),
            ArmOffer(
                success_probability=fast + gain,
                expected=Spend(cost=5.0, engine_seconds=2.0, full_share=1.0),
            ),
        ),
        **more,
    )


ONLY_FULL = Offer(arms=offer(0.3).arms[1:])


def decide(controller: BudgetController, now: float, offered: Offer, *, surprise: float = 1.0) -> Spend:
    """Route one request at the controller's λ; it ends at once, at `surprise` times its expected money."""
    stairs = staircase(offered, controller.config.metric)
    chosen = stairs.arms[stairs.choose(controller.state.price_of_compute)]
    controller.observe_decision(now, offered, chosen=chosen)
    expected = offered.arms[chosen].expected
    realised = replace(expected, cost=expected.cost * surprise)
    controller.observe_spend(now, expected=expected, realised=realised)
    return realised


def run(
    controller: BudgetController, offers: Sequence[Offer], *, begin: float = 0.0, per_second: int = 5
) -> list[BudgetState]:
    """Route `offers`, so many a second, with a tick each second; return the state after each tick."""
    states = []
    for i, offered in enumerate(offers):
        decide(controller, begin + i / per_second, offered)
        if i % per_second == per_second - 1:
            states.append(controller.tick(begin + (i + 1) / per_second))
    return states


def uniform_offers(num: int, *, seed: int = 0, scale: float = 0.5) -> list[Offer]:
    """Gains spread evenly over [0, scale]: a full share s needs λ = scale·(1 − s)."""
    return [offer(float(gain)) for gain in np.random.default_rng(seed).uniform(0, scale, num)]


spends = st.floats(0, 10).map(lambda x: Spend(cost=x, engine_seconds=x / 2, full_share=float(x > 5)))
gains = st.floats(-0.5, 0.5)
events = st.lists(
    st.tuples(st.just("decide"), gains, st.booleans())
    | st.tuples(st.just("end"), spends, spends)
    | st.tuples(st.just("tick"), st.floats(0.01, 100), st.none())
    | st.tuples(st.just("doubt"), st.booleans(), st.none()),
    max_size=80,
)
configs = st.builds(
    BudgetConfig,
    metric=st.sampled_from(Metric),
    target=st.floats(0, 1),
    quality_floor=st.floats(0, 1),
    winner=st.sampled_from(Winner),
    mode=st.sampled_from(Mode),
    price_of_compute=st.floats(0, 1),
    max_offers=st.integers(1, 40),
)


def apply(controller: BudgetController, recorded: Sequence[tuple[Any, ...]], now: float) -> list[BudgetState]:
    """Play recorded events from `now` on; return every tick's state."""
    states = []
    for kind, one, other in recorded:
        if kind == "decide":
            controller.observe_decision(now, offer(one, is_curtailed=other), chosen=int(one > 0))
        elif kind == "end":
            controller.observe_spend(now, expected=one, realised=other)
        elif kind == "doubt":
            controller.set_conservative(one)
        else:
            now += one
            states.append(controller.tick(now))
    return [*states, controller.tick(now + 1)]


@given(configs, events)
def test_replay_gives_identical_states(config: BudgetConfig, recorded: list[tuple[Any, ...]]) -> None:
    """The same events give the same states, to the last bit, and every number in them is finite."""
    first = apply(BudgetController(config, now=0.0), recorded, 0.0)
    assert first == apply(BudgetController(config, now=0.0), recorded, 0.0)
    for state in first:
        assert np.isfinite([state.price_of_compute, state.advised_price_of_compute, state.debt]).all()


@given(configs, events, events)
def test_a_restart_changes_nothing(
    config: BudgetConfig, before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    """Saved as JSON and restored, the controller goes on exactly as one that was never stopped."""
    uninterrupted = BudgetController(config, now=0.0)
    now = apply(uninterrupted, before, 0.0)[-1].at
    saved = json.loads(json.dumps(uninterrupted.plain(now)))
    restored = BudgetController.restored(saved, config, now=now)
    assert restored.state == uninterrupted.state
    assert apply(restored, after, now) == apply(uninterrupted, after, now)


def test_another_clock_after_a_restart_changes_nothing() -> None:
    """A process's clock begins anew; the time that passed while it was down does not count."""
    one = BudgetController(CONFIG, now=0.0)
    run(one, uniform_offers(200))
    other = BudgetController.restored(one.plain(40.0), CONFIG, now=40.0 + 4096)
    assert other.state.at == one.state.at + 4096
    for here, there in zip(
        run(one, uniform_offers(200, seed=1), begin=40.0),
        run(other, uniform_offers(200, seed=1), begin=40.0 + 4096),
        strict=True,
    ):
        assert there.price_of_compute == pytest.approx(here.price_of_compute)
        assert there.requests_per_second == pytest.approx(here.requests_per_second)


@given(configs, events, st.lists(st.floats(0, 1e6), min_size=1, max_size=5))
def test_without_traffic_nothing_moves(
    config: BudgetConfig, recorded: list[tuple[Any, ...]], waits: list[float]
) -> None:
    """After a tick, ticks without news return the same state, λ and all, however long the silence."""
    controller = BudgetController(config, now=0.0)
    state = apply(controller, recorded, 0.0)[-1]
    now = state.at
    for wait in waits:
        now += wait
        assert controller.tick(now) is controller.state
        assert controller.state == state


def test_it_holds_its_target_and_finds_the_price() -> None:
    """Of gains spread evenly over [0, .5], a share of .3 costs λ = .35."""
    controller = BudgetController(CONFIG, now=0.0)
    states = run(controller, uniform_offers(3000))
    assert np.mean([state.price_of_compute for state in states[100:]]) == pytest.approx(0.35, abs=0.01)
    assert states[-1].realised == pytest.approx(0.3, abs=0.03)
    assert states[-1].expected == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize(
    ("metric", "target", "expected"),
    [
        (Metric.COST_PER_REQUEST, 2.2, 0.35 / 4),
        (Metric.ENGINE_SECONDS_PER_REQUEST, 0.95, 0.35 / 1.5),
        (Metric.COST_PER_HOUR, 2.2 * 5 * 3600, 0.35 / 4),
    ],
)
def test_every_metric_finds_its_price(metric: Metric, target: float, expected: float) -> None:
    """The same share of .3, asked for as money, seconds or money per hour, is the same λ per unit of it."""
    controller = BudgetController(BudgetConfig(metric=metric, target=target), now=0.0)
    states = run(controller, uniform_offers(3000))
    assert np.mean([state.price_of_compute for state in states[100:]]) == pytest.approx(expected, rel=0.04)


def test_requests_that_are_all_alike_are_shared_out() -> None:
    """One and the same request, for which a λ without a band would send all or none."""
    controller = BudgetController(CONFIG, now=0.0)
    rng = np.random.default_rng(0)
    num_full = 0
    for i in range(1500):
        state, stairs = controller.state, staircase(offer(0.2), Metric.FULL_SHARE)
        chances = stairs.chances(state.price_of_compute, state.spread)
        chosen = int(rng.choice(len(chances), p=chances))
        num_full += i >= 300 and chosen
        controller.observe_decision(i / 5, offer(0.2), chosen=chosen)
        if i % 5 == 4:
            controller.tick((i + 1) / 5)
    assert num_full / 1200 == pytest.approx(0.3, abs=0.02)


def test_what_turns_out_dearer_is_learnt() -> None:
    """At twice the money that was expected, the mean cost still comes to the target."""
    controller = BudgetController(BudgetConfig(metric=Metric.COST_PER_REQUEST, target=3.6), now=0.0)
    costs = []
    for i, offered in enumerate(uniform_offers(4000)):
        costs.append(decide(controller, i / 5, offered, surprise=2.0).cost)
        if i % 5 == 4:
            controller.tick((i + 1) / 5)
    assert np.mean(costs[1500:]) == pytest.approx(3.6, rel=0.02)
    assert controller.state.price_ratio == pytest.approx(2.0, rel=0.1)


def test_clients_that_choose_count_against_the_budget() -> None:
    """With a fifth of the traffic sent to full by its clients, the rest gets what is left of the share."""
    controller = BudgetController(CONFIG, now=0.0)
    offers = [ONLY_FULL if i % 5 == 0 else offered for i, offered in enumerate(uniform_offers(3000))]
    states = run(controller, offers)
    assert states[-1].realised == pytest.approx(0.3, abs=0.03)
    assert not states[-1].is_budget_infeasible


def test_a_target_below_what_clients_take_is_said_to_be_infeasible() -> None:
    """Where clients alone take more than the target, no λ meets it: the rest goes fast, and no debt piles up."""
    controller = BudgetController(CONFIG, now=0.0)
    offers = [ONLY_FULL if i % 2 else offered for i, offered in enumerate(uniform_offers(2000))]
    states = run(controller, offers)
    assert states[-1].is_budget_infeasible
    assert states[-1].expected == pytest.approx(0.5, abs=0.01)
    assert states[-1].debt <= 0


def test_a_target_above_what_is_worth_it_is_slack() -> None:
    """Where only a fifth of the requests gains from full, a budget of .3 is not spent for nothing."""
    controller = BudgetController(CONFIG, now=0.0)
    states = run(controller, [offer(0.2 if i % 5 == 0 else -0.1) for i in range(1000)])
    assert states[-1].is_budget_slack
    assert not states[-1].is_budget_infeasible
    assert states[-1].realised == pytest.approx(0.2, abs=0.01)
    assert states[-1].debt >= 0


@pytest.mark.parametrize(
    ("winner", "share", "quality"), [(Winner.QUALITY_FLOOR, 0.55, 0.70), (Winner.BUDGET, 0.3, 0.628)]
)
def test_where_floor_and_budget_collide_the_winner_wins(winner: Winner, share: float, quality: float) -> None:
    """A floor of .7 on the mean needs a full share of .55, the budget is .3: one gives way, and the state says so."""
    config = replace(CONFIG, quality_floor=0.70, winner=winner)
    controller = BudgetController(config, now=0.0)
    states = run(controller, uniform_offers(3000))
    tail = states[100:]
    assert np.mean([state.expected for state in tail if state.expected is not None]) == pytest.approx(
        share, abs=0.03
    )
    assert np.mean([state.expected_quality for state in tail if state.expected_quality]) == pytest.approx(
        quality, abs=0.01
    )
    assert all(state.is_floor_binding for state in tail)
    assert not states[-1].is_budget_infeasible
    assert not states[-1].is_floor_infeasible
    if winner is Winner.QUALITY_FLOOR:
        assert states[-1].debt <= 0


def test_a_floor_above_everything_is_said_to_be_infeasible() -> None:
    """A floor that no λ reaches gets all that can be had, if it is the winner."""
    controller = BudgetController(replace(CONFIG, quality_floor=0.99), now=0.0)
    state = run(controller, uniform_offers(500))[-1]
    assert state.is_floor_infeasible
    assert state.is_floor_binding
    assert state.expected == pytest.approx(1.0, abs=0.02)


def test_a_floor_that_does_not_bind_is_not_felt() -> None:
    """With room between the two, the target is held and nothing is said."""
    controller = BudgetController(replace(CONFIG, quality_floor=0.55), now=0.0)
    states = run(controller, uniform_offers(2000))
    assert states[-1].realised == pytest.approx(0.3, abs=0.03)
    assert not states[-1].is_floor_binding


def test_conservative_mode_raises_the_target_within_its_allowance() -> None:
    """In doubt the share goes to one and a half times the target and no further, and comes back after."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, uniform_offers(1000))
    controller.set_conservative(True)
    state = run(controller, uniform_offers(2000, seed=1), begin=200.0)[-1]
    assert (state.is_conservative, state.target) == (True, pytest.approx(0.45))
    assert state.realised == pytest.approx(0.45, abs=0.03)
    controller.set_conservative(False)
    state = run(controller, uniform_offers(2000, seed=2), begin=600.0)[-1]
    assert state.realised == pytest.approx(0.3, abs=0.03)


def test_a_full_share_is_never_raised_above_one() -> None:
    """The allowance of a share ends at all requests."""
    controller = BudgetController(replace(CONFIG, target=0.9), now=0.0)
    controller.set_conservative(True)
    assert controller.tick(1.0).target == 1.0


def test_frozen_stays_where_it_is_and_says_what_it_would_do() -> None:
    """Frozen, λ rests though the traffic changes; unfrozen, it goes on from there."""
    controller = BudgetController(CONFIG, now=0.0)
    before = run(controller, uniform_offers(1000))[-1].price_of_compute
    controller.configure(replace(CONFIG, mode=Mode.FROZEN))
    states = run(controller, uniform_offers(1000, scale=0.25), begin=200.0)
    assert {state.price_of_compute for state in states} == {before}
    assert states[-1].advised_price_of_compute == pytest.approx(0.175, abs=0.02)
    controller.configure(CONFIG)
    state = run(controller, uniform_offers(5, scale=0.25), begin=400.0)[-1]
    assert abs(log(state.price_of_compute / before)) <= CONFIG.max_log_step_per_s + 1e-9


@pytest.mark.parametrize("mode", [Mode.MANUAL, Mode.DRY_RUN])
def test_manual_and_dry_run_leave_the_price_to_the_configuration(mode: Mode) -> None:
    """The λ in force is the configured one; beside it stands what the controller would set."""
    controller = BudgetController(replace(CONFIG, mode=mode, price_of_compute=0.1), now=0.0)
    states = run(controller, uniform_offers(1500))
    assert {state.price_of_compute for state in states} == {0.1}
    assert states[-1].advised_price_of_compute == pytest.approx(0.35, abs=0.04)
    assert states[-1].expected == pytest.approx(0.8, abs=0.05)
    assert states[-1].debt == 0


@pytest.mark.parametrize("mode", [Mode.MANUAL, Mode.DRY_RUN])
def test_taking_over_is_without_a_jump(mode: Mode) -> None:
    """The controller goes on from the λ that was in force."""
    controller = BudgetController(replace(CONFIG, mode=mode, price_of_compute=0.1), now=0.0)
    run(controller, uniform_offers(500))
    controller.configure(CONFIG)
    state = run(controller, uniform_offers(5), begin=100.0)[-1]
    assert 0.1 < state.price_of_compute <= 0.1 * np.exp(CONFIG.max_log_step_per_s) + 1e-9


def test_a_new_metric_keeps_what_is_known_of_the_traffic() -> None:
    """Asked for money instead of a share, the controller prices its window anew and is right at the next tick."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, uniform_offers(1000))
    controller.configure(BudgetConfig(metric=Metric.COST_PER_REQUEST, target=2.2))
    state = controller.tick(201.0)
    assert state.price_of_compute == pytest.approx(0.35 / 4, rel=0.1)
    assert (state.realised, state.debt) == (None, 0)


def test_a_new_target_begins_a_new_account() -> None:
    """What was owed under the old target is forgiven; the realised mean is of the new account alone."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, [ONLY_FULL] * 20 + uniform_offers(100))
    controller.configure(replace(CONFIG, target=0.2))
    assert controller.tick(100.0).debt == 0
    assert controller.state.target == 0.2


@given(st.lists(st.floats(0, 0.5), min_size=100, max_size=200), st.floats(0.01, 1.0))
@settings(max_examples=25)
def test_the_price_never_moves_faster_than_it_may(some_gains: list[float], step: float) -> None:
    """Once the window is warm, ln λ moves by no more than its step in a second, whatever comes."""
    controller = BudgetController(replace(CONFIG, max_log_step_per_s=step), now=0.0)
    states = run(controller, [offer(gain) for gain in some_gains])[6:]
    for earlier, later in pairwise(states):
        if earlier.price_of_compute > 0 and later.price_of_compute > 0:
            assert abs(log(later.price_of_compute / earlier.price_of_compute)) <= step + 1e-9


def test_a_long_gap_between_ticks_is_no_licence_to_leap() -> None:
    """An hour without a tick moves λ no further than five seconds would."""
    controller = BudgetController(CONFIG, now=0.0)
    before = run(controller, uniform_offers(600))[-1].price_of_compute
    run(controller, uniform_offers(300, scale=0.005), begin=120.0, per_second=1000)
    after = controller.tick(3720.0).price_of_compute
    assert log(after / before) == pytest.approx(-5 * CONFIG.max_log_step_per_s)


def test_after_a_pause_the_account_is_a_new_one() -> None:
    """What was owed when a person took over is not collected when the controller takes over again."""
    controller = BudgetController(CONFIG, now=0.0)
    assert run(controller, [offer(0.3)] * 5)[-1].debt != 0
    controller.configure(replace(CONFIG, mode=Mode.FROZEN))
    controller.configure(CONFIG)
    assert controller.tick(2.0).debt == 0


def test_old_offers_go_and_a_few_stay() -> None:
    """After an hour in which little came, the window holds what is fresh and at least fifty offers."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, uniform_offers(300))
    assert controller.state.num_offers == 300
    decide(controller, 3660.0, offer(0.1))
    assert controller.tick(3661.0).num_offers == 50


def test_the_price_stays_within_its_bounds() -> None:
    """The operator's least and greatest λ hold, whatever the target and the floor ask."""
    config = replace(CONFIG, quality_floor=0.99, min_price_of_compute=0.1)
    state = run(BudgetController(config, now=0.0), uniform_offers(500))[-1]
    assert state.price_of_compute == pytest.approx(0.1)
    for target, bound in ((0.0, 0.2), (1.0, 0.1)):
        config = replace(CONFIG, target=target, min_price_of_compute=0.1, max_price_of_compute=0.2)
        state = run(BudgetController(config, now=0.0), uniform_offers(500))[-1]
        assert state.price_of_compute == pytest.approx(bound)


@pytest.mark.parametrize("arm", [0, 1])
def test_an_outage_piles_up_no_debt(arm: int) -> None:
    """While one tier is down for ten minutes the debt stays in its limit, the window keeps what it knew of the
    traffic, and five minutes later the share is the target again."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, uniform_offers(1500))
    down = Offer(arms=offer(0.3).arms[arm : arm + 1], is_curtailed=True)
    states = run(controller, [down] * 3000, begin=300.0)
    horizon = max(CONFIG.repay_requests, CONFIG.repay_s * states[-1].requests_per_second)
    assert abs(states[-1].debt) <= CONFIG.max_correction_share * CONFIG.target * horizon + 1e-9
    assert states[-1].num_offers == CONFIG.max_offers
    run(controller, uniform_offers(600, seed=2), begin=900.0)
    after = run(controller, uniform_offers(900, seed=3), begin=1020.0)
    assert np.mean([state.expected for state in after if state.expected]) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("num_silent", [1, 1000])
def test_a_silence_saves_up_two_minutes(num_silent: int) -> None:
    """After an hour of silence an hourly budget is not doubled: the credit is what two minutes of it are worth."""
    config = BudgetConfig(metric=Metric.COST_PER_HOUR, target=2.2 * 5 * 3600)
    controller = BudgetController(config, now=0.0)
    run(controller, uniform_offers(1500))
    now = 300.0
    for _ in range(num_silent):
        now += 3600 / num_silent
        controller.tick(now)
    spent = 0.0
    for i, offered in enumerate(uniform_offers(3000, seed=4)):
        spent += decide(controller, now + i / 5, offered).cost
        if i % 5 == 4:
            controller.tick(now + (i + 1) / 5)
    worth = config.target / 3600
    assert spent == pytest.approx((600 + config.max_correction_share * KEPT_S) * worth, rel=0.01)


def test_what_a_burst_took_is_repaid_to_the_hour() -> None:
    """Half an hour in which every eighty seconds twenty bring thirty requests each and the others two: as a whole it
    takes its target."""
    config = BudgetConfig(metric=Metric.COST_PER_HOUR, target=60_000.0)
    controller = BudgetController(config, now=0.0)
    offers, spent = iter(uniform_offers(20_000)), 0.0
    for second in range(1800):
        num_requests = 30 if second % 80 >= 60 else 2
        spent += sum(decide(controller, second + i / 30, next(offers)).cost for i in range(num_requests))
        controller.tick(second + 1.0)
    assert 2 * spent == pytest.approx(config.target, rel=0.02)


def test_a_day_of_silence_leaves_a_rate_to_divide_by() -> None:
    """However long nothing came, what ends or is changed then is taken in without a fault."""
    controller = BudgetController(BudgetConfig(metric=Metric.COST_PER_HOUR, target=10.0), now=0.0)
    run(controller, uniform_offers(100))
    controller.observe_spend(1e6, expected=ZERO, realised=ZERO)
    state = controller.tick(1e6)
    assert np.isfinite(state.price_of_compute)
    assert state.requests_per_second == 0


def test_memory_is_bounded() -> None:
    """The state of ten thousand requests is no larger than that of one thousand."""
    controller = BudgetController(CONFIG, now=0.0)
    sizes = []
    for i, offered in enumerate(uniform_offers(10_000)):
        decide(controller, i / 50, offered)
        if i % 50 == 49:
            controller.tick((i + 1) / 50)
        if i in {999, 9999}:
            sizes.append(len(controller.plain(i / 50)["window"]["offers"]))
    assert sizes[0] <= sizes[1] == CONFIG.max_offers


def test_fast_traffic_is_thinned_to_a_minute() -> None:
    """At fifty a second the window does not shrink to six seconds: its oldest offer is nearly a minute old."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, uniform_offers(10_000), per_second=50)
    offers = controller.plain(200.0)["window"]["offers"]
    assert 50 <= 200.0 - offers[0][0] <= 70


def test_a_state_of_another_kind_is_refused() -> None:
    """A state of another metric or schema says nothing about this one."""
    plain = BudgetController(CONFIG, now=0.0).plain(0.0)
    with pytest.raises(StateMismatchError, match="metric"):
        BudgetController.restored(plain, BudgetConfig(metric=Metric.COST_PER_HOUR, target=1.0), now=0.0)
    with pytest.raises(StateMismatchError, match="schema"):
        BudgetController.restored(plain | {"schema": 0}, CONFIG, now=0.0)


def test_a_state_saved_under_another_target_owes_nothing() -> None:
    """λ goes on; the debt belonged to the old target."""
    controller = BudgetController(CONFIG, now=0.0)
    run(controller, uniform_offers(500))
    restored = BudgetController.restored(controller.plain(100.0), replace(CONFIG, target=0.5), now=100.0)
    assert restored.plain(100.0)["debt"] == 0
    assert restored.plain(100.0)["price_of_compute"] == controller.state.price_of_compute


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": -1.0},
        {"target": float("nan")},
        {"target": 1.5},
        {"quality_floor": 1.5},
        {"price_of_compute": -1.0},
        {"min_price_of_compute": 2.0, "max_price_of_compute": 1.0},
        {"conservative_allowance": 0.5},
        {"max_offers": 0},
        {"repay_requests": 0.0},
        {"max_log_step_per_s": 0.0},
        {"spread": 0.0},
    ],
)
def test_terms_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    """The message names the term and says what it must be."""
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` is .*; it must be"):
        replace(CONFIG, **wrong)
