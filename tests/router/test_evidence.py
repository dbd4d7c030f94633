"""The loop of evidence, put together: grades raise the flag, the flag buys time, the grades mend the forecasts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from router.budget import BudgetController
from router.budget_config import BudgetConfig
from router.drift import DriftConfig, DriftKind, DriftMonitor
from router.offer import Metric, Offer
from router.recalibration import Recalibrator
from router.staircase import banded, staircase
from router.workload import TWO_TIERS, Phase, Request, traffic

BEGIN, CHANGE, END = 0.0, 900.0, 3600.0
GRADED_SHARE = 0.3


@dataclass
class Loop:
    """A gateway without the gateway: it decides, takes grades in, checks every second and refits every minute."""

    mends: bool
    recalibrator: Recalibrator = field(default_factory=Recalibrator)
    drift: DriftMonitor = field(default_factory=lambda: DriftMonitor(DriftConfig(), {}))
    flags: list[tuple[float, bool]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def run(self, seed: int) -> None:
        rng, draws = np.random.default_rng(seed).spawn(2)
        phases = (
            Phase(duration_s=CHANGE, requests_per_second=5),
            Phase(duration_s=END - CHANGE, requests_per_second=5, difficulty=2.5, seen_difficulty=1.0),
        )
        controller = BudgetController(BudgetConfig(metric=Metric.FULL_SHARE, target=0.3), now=BEGIN)
        second = 1.0
        for request in traffic(phases, TWO_TIERS, rng):
            while request.at >= second:
                is_conservative = self.drift.check().is_conservative
                controller.set_conservative(is_conservative)
                controller.tick(second)
                self.flags.append((second, is_conservative))
                if self.mends and second % 60 == 0:
                    self.recalibrator.refit()
                second += 1.0
            self.route(request, controller, draws)

    def route(self, request: Request, controller: BudgetController, draws: np.random.Generator) -> None:
        offer = self.mended(request)
        state, stairs = controller.state, staircase(offer, Metric.FULL_SHARE)
        price = banded(state.price_of_compute, spread=state.spread, uniform=draws.random())
        chosen = stairs.arms[stairs.choose(price)]
        controller.observe_decision(request.at, offer, chosen=chosen)
        expected = offer.arms[chosen].expected
        controller.observe_spend(request.at, expected=expected, realised=expected)
        assert request.succeeds is not None
        success, name = float(request.succeeds[chosen]), request.names[chosen]
        if draws.random() < GRADED_SHARE:
            raw = request.offer.arms[chosen].success_probability
            self.recalibrator.observe(name, probability=raw, success=success)
            self.drift.observe_outcome(
                name, probability=offer.arms[chosen].success_probability, success=success
            )
        p = offer.arms[chosen].success_probability
        self.rows.append({"at": request.at, "full": name == "full", "p": p, "success": success})

    def mended(self, request: Request) -> Offer:
        arms = tuple(
            replace(arm, success_probability=self.recalibrator.apply(name, arm.success_probability))
            for arm, name in zip(request.offer.arms, request.names, strict=True)
        )
        return replace(request.offer, arms=arms)

    def mean(self, name: str, begin: float, end: float) -> float:
        return float(np.mean([row[name] for row in self.rows if begin <= row["at"] < end]))

    def first_flag(self) -> float | None:
        return next((at for at, is_up in self.flags if is_up), None)


@pytest.fixture(scope="module")
def mending() -> Loop:
    loop = Loop(mends=True)
    loop.run(0)
    return loop


@pytest.fixture(scope="module")
def warning() -> Loop:
    loop = Loop(mends=False)
    loop.run(0)
    return loop


def test_a_change_that_forecasts_miss_is_seen_by_its_outcomes(warning: Loop) -> None:
    """No flag in fifteen good minutes; once requests are harder than they look, one within five minutes."""
    flag = warning.first_flag()
    assert flag is not None
    assert CHANGE < flag < CHANGE + 300
    assert {reason.kind for reason in warning.drift.check().reasons} == {DriftKind.OUTCOME}


def test_the_flag_buys_more_of_the_full_tier_within_its_allowance(warning: Loop) -> None:
    """While forecasts stay wrong the share is half as much again as the target, and no more."""
    assert warning.mean("full", 300, CHANGE) == pytest.approx(0.3, abs=0.02)
    assert warning.mean("full", 1800, END) == pytest.approx(0.45, abs=0.02)


def test_grades_mend_the_forecasts(mending: Loop, warning: Loop) -> None:
    """Refitted to their grades, forecasts are right again to within three points; left alone they are off by more
    than ten."""
    assert abs(mending.mean("p", 2400, END) - mending.mean("success", 2400, END)) < 0.03
    assert warning.mean("p", 2400, END) - warning.mean("success", 2400, END) > 0.1


def test_mended_forecasts_lower_the_flag_and_the_spending(mending: Loop) -> None:
    """With forecasts that hold, the alarm ends by itself and the share is at its target again."""
    assert not any(is_up for at, is_up in mending.flags if at > 3000)
    assert mending.mean("full", 3000, END) == pytest.approx(0.3, abs=0.03)
