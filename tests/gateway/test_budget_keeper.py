"""The keeper: λ follows the controller, restarts and changes keep what they should, and no fault ends a gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from router.arms import Arm, Capabilities, Price
from router.budget_config import Mode
from router.difficulty import Forecast
from router.offer import Metric, Spend
from router.policy import RoutingPolicy
from router.pricing import Draws
from router.request import RequestView
from serving.budget_settings import BudgetSettings
from serving.gateway import budget_keeper, ticking
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.state_file import StateFile
from serving.telemetry.budget_series import BudgetSeries

SHARE = BudgetSettings(metric=Metric.FULL_SHARE, target=0.3)
VIEW = RequestView(endpoint="chat", model="auto", turns=("hi",), num_chars=2)
ARMS = tuple(
    Arm(name=name, tier=name, price=Price(input=0, output=price), capabilities=Capabilities(context_tokens=4096),
        strength=strength)
    for strength, (name, price) in enumerate((("fast", 1.0), ("full", 5.0)))
)  # fmt: skip


@dataclass(frozen=True)
class Gain:
    """fast succeeds every other time, full by so much more often; a million tokens an answer."""

    gain: float
    version: str = "gain"

    def forecast(self, view: RequestView, arms: Sequence[Arm]) -> dict[str, Forecast]:
        return {
            arm.name: Forecast(success_probability=0.5 + self.gain * arm.strength, num_output_tokens=1e6)
            for arm in arms
        }

    def contributions(self, view: RequestView) -> dict[str, float]:
        return {}


class Clocks:
    """A monotonic and a wall clock that are moved by hand, together unless a test says otherwise."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.wall = 1e9

    def pass_(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


class Bench:
    """A keeper on a home, and traffic for it."""

    def __init__(self, home: Path, settings: BudgetSettings = SHARE, clocks: Clocks | None = None) -> None:
        self.clocks = clocks or Clocks()
        self.registry = CollectorRegistry()
        self.keeper = BudgetKeeper(
            settings,
            StateFile(home / "budget.json"),
            BudgetSeries(self.registry),
            monotonic=lambda: self.clocks.monotonic,
            wall_clock=lambda: self.clocks.wall,
        )
        self.rng = np.random.default_rng(0)

    def request(self, gain: float, *, surprise: float = 1.0) -> Spend:
        """One request from decision to end; what it took."""
        decision = RoutingPolicy(Gain(gain)).decide(
            VIEW, ARMS, self.keeper.pricing, draws=Draws(price=float(self.rng.random()))
        )
        self.keeper.decided(decision)
        realised = replace(decision.expected, cost=decision.expected.cost * surprise, engine_seconds=2.0)
        self.keeper.ended(decision.arm, expected=decision.expected, realised=realised)
        return realised

    def run(self, seconds: int, *, per_second: int = 5, gains: tuple[float, float] = (0.0, 0.5)) -> float:
        """So many seconds of traffic; the full tier's share of it."""
        shares = []
        for _ in range(seconds):
            for _ in range(per_second):
                shares.append(self.request(float(self.rng.uniform(*gains))).full_share)
                self.clocks.pass_(1 / per_second)
            self.keeper.tick()
        return float(np.mean(shares))

    def value(self, name: str, metric: str = "full_share") -> float | None:
        return self.registry.get_sample_value(f"tierwise_budget_{name}", {"metric": metric})

    def save(self) -> None:
        """As at the end of the process."""

        async def enter_and_leave() -> None:
            async with self.keeper:
                pass

        asyncio.run(enter_and_leave())


def test_the_target_is_held_from_decisions_alone(tmp_path: Path) -> None:
    """Five minutes at five a second, and again after a shift: the share is the target's within two points."""
    bench = Bench(tmp_path)
    bench.run(120)
    assert bench.run(180) == pytest.approx(0.3, abs=0.02)
    bench.run(120, gains=(0.2, 0.9))
    assert bench.run(180, gains=(0.2, 0.9)) == pytest.approx(0.3, abs=0.02)


def test_the_gauges_say_what_the_controller_says(tmp_path: Path) -> None:
    """Every number that is known is shown, under the metric that is its unit."""
    bench = Bench(tmp_path)
    assert (bench.value("target"), bench.value("price_of_compute")) == (0.3, 0.0)
    assert bench.value("expected") is None
    bench.run(60)
    state = bench.keeper.state
    assert state is not None
    shown = ("target", "price_of_compute", "expected", "realised", "debt", "price_ratio", "expected_quality")
    assert [bench.value(name) for name in shown] == [getattr(state, name) for name in shown]
    assert [
        bench.value(f"is_{claim}") for claim in ("infeasible", "slack", "floor_binding", "conservative")
    ] == [0.0] * 4
    assert bench.keeper.pricing.price_of_compute == state.price_of_compute > 0


def test_without_a_target_the_price_is_the_configured_one(tmp_path: Path) -> None:
    """Nothing is observed, λ has no band, and only λ is shown."""
    bench = Bench(tmp_path, BudgetSettings(price_of_compute=7.0))
    bench.run(60)
    assert bench.keeper.state is None
    assert (bench.keeper.pricing.price_of_compute, bench.keeper.pricing.spread) == (7.0, 0.0)
    assert bench.value("price_of_compute", "cost_per_request") == 7.0
    assert bench.value("target", "cost_per_request") is None


def test_expected_seconds_are_a_running_mean(tmp_path: Path) -> None:
    """Of answers by one attempt, with or without a budget; arms that never answered take none."""
    bench = Bench(tmp_path, BudgetSettings())
    spend = Spend(cost=0.0, engine_seconds=0.0, full_share=0.0)
    for seconds in (1.0, 2.0, 6.0):
        bench.keeper.ended("fast", expected=spend, realised=replace(spend, engine_seconds=seconds))
    bench.keeper.ended(None, expected=spend, realised=replace(spend, engine_seconds=99.0))
    assert bench.keeper.pricing.engine_seconds == {"fast": 3.0}
    for _ in range(3000):
        bench.keeper.ended("fast", expected=spend, realised=replace(spend, engine_seconds=8.0))
    assert bench.keeper.pricing.engine_seconds["fast"] == pytest.approx(8.0, abs=0.01)


@pytest.mark.parametrize("away_s", [0.0, 30.0, 7 * 86_400.0, -3600.0])
def test_a_restart_goes_on_where_it_stopped(tmp_path: Path, away_s: float) -> None:
    """λ, the means and the target are those from before, on another clock, and however the wall clock was moved."""
    bench = Bench(tmp_path)
    bench.run(120)
    bench.save()
    clocks = Clocks()
    clocks.monotonic, clocks.wall = 3.0, bench.clocks.wall + away_s
    again = Bench(tmp_path, clocks=clocks)
    assert again.keeper.pricing == bench.keeper.pricing
    assert again.value("price_of_compute") == bench.value("price_of_compute")
    again.keeper.tick()
    assert again.keeper.pricing == bench.keeper.pricing
    again.run(60)
    assert again.run(240) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    ("settings", "is_kept"),
    [
        (SHARE, True),
        (SHARE.model_copy(update={"target": 0.5}), True),
        (BudgetSettings(metric=Metric.COST_PER_REQUEST, target=2.0), False),
        (BudgetSettings(), False),
    ],
)
def test_what_was_saved_counts_where_it_still_means_the_same(
    tmp_path: Path, settings: BudgetSettings, is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Another target takes λ over; another metric, or none, begins anew and says so."""
    bench = Bench(tmp_path)
    bench.run(60)
    bench.save()
    again = Bench(tmp_path, settings)
    assert again.keeper.terms == settings
    before, after = bench.keeper.pricing, again.keeper.pricing
    assert (after.price_of_compute == before.price_of_compute) is is_kept
    assert after.price_of_compute == (before.price_of_compute if is_kept else settings.initial_price)


def test_a_change_is_in_force_at_once_and_outlives_a_restart(tmp_path: Path) -> None:
    """Whoever spoke last is obeyed: the operator, until the configuration itself says something else."""
    bench = Bench(tmp_path)
    bench.run(60)
    changed = SHARE.model_copy(update={"mode": Mode.MANUAL, "price_of_compute": 0.123})
    bench.keeper.change(changed)
    assert bench.keeper.pricing.price_of_compute == 0.123
    bench.run(5)
    assert bench.keeper.pricing.price_of_compute == 0.123
    bench.save()
    assert Bench(tmp_path).keeper.terms == changed
    assert Bench(tmp_path).keeper.pricing.price_of_compute == 0.123
    edited = SHARE.model_copy(update={"target": 0.4})
    assert Bench(tmp_path, edited).keeper.terms == edited


def test_a_change_of_metric_shows_the_new_one_alone(tmp_path: Path) -> None:
    """What is no longer held is not shown any more, and taking the target away ends the holding."""
    bench = Bench(tmp_path)
    bench.run(30)
    bench.keeper.change(BudgetSettings(metric=Metric.COST_PER_REQUEST, target=2.0))
    assert bench.value("target") is None
    assert bench.value("target", "cost_per_request") == 2.0
    bench.run(120)
    assert bench.keeper.state is not None
    assert bench.keeper.state.realised == pytest.approx(2.0, rel=0.2)
    bench.keeper.change(BudgetSettings(price_of_compute=3.0))
    assert bench.keeper.state is None
    assert bench.keeper.pricing.price_of_compute == 3.0


def test_a_damaged_state_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Members that are missing or of another kind, in a file that is otherwise whole: a warning and a new beginning."""
    bench = Bench(tmp_path)
    bench.run(30)
    bench.save()
    file = StateFile(tmp_path / "budget.json")
    saved = file.read()
    assert saved is not None
    damages: list[dict[str, Any]] = [
        {},
        {**saved, "terms": {"target": "much"}},
        {**saved, "engine_seconds": {"fast": "long"}},
        {**saved, "saved_at": None},
        {**saved, "controller": {**saved["controller"], "schema": 99}},
        {**saved, "controller": {**saved["controller"], "window": {}}},
    ]
    for damage in damages:
        caplog.clear()
        file.write(damage)
        again = Bench(tmp_path)
        assert "begins anew" in caplog.text
        assert again.keeper.terms == SHARE
        assert again.keeper.pricing.price_of_compute == 0.0
        again.run(2)


async def test_while_it_is_entered_it_ticks_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anybody else λ moves, and the file is there long before the end."""
    monkeypatch.setattr(ticking, "TICK_S", 0.01)
    monkeypatch.setattr(budget_keeper, "SAVE_EVERY_S", 0.02)
    bench = Bench(tmp_path)
    async with bench.keeper:
        for i in range(50):
            bench.request(i / 100)
        bench.clocks.pass_(1.0)
        async with asyncio.timeout(5):
            while not (bench.keeper.pricing.price_of_compute and (tmp_path / "budget.json").exists()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        price = bench.keeper.pricing.price_of_compute
    assert Bench(tmp_path).keeper.pricing.price_of_compute == price
    assert len(asyncio.all_tasks()) == 1


async def test_a_tick_that_fails_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """λ stays where it is, the log has the reason, and the next tick is tried."""
    monkeypatch.setattr(ticking, "TICK_S", 0.01)
    bench = Bench(tmp_path)
    bench.run(30)
    price = bench.keeper.pricing.price_of_compute
    calls = []

    def broken() -> None:
        calls.append(1)
        raise ValueError("a bug")

    monkeypatch.setattr(bench.keeper, "tick", broken)
    with caplog.at_level(logging.ERROR):
        async with bench.keeper, asyncio.timeout(5):
            while len(calls) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert bench.keeper.pricing.price_of_compute == price
    assert "λ stays" in caplog.text


def test_a_burst_at_the_very_beginning_is_shared_out(tmp_path: Path) -> None:
    """Of a hundred requests in the first second, before the first tick of the clock, about the target's share go up."""
    bench = Bench(tmp_path)
    full = [bench.request(float(bench.rng.uniform(0, 0.5))).full_share for _ in range(100)]
    assert np.mean(full) == pytest.approx(0.3, abs=0.12)
