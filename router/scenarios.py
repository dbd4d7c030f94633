"""The scenarios that the controller is held to: what changes, when, and what is to be held through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from router.budget import BudgetController
from router.budget_config import BudgetConfig
from router.offer import Metric
from router.plan import Winner
from router.settling import WINDOW_S, Settling, settling
from router.simulate import Second, simulate
from router.workload import TWO_TIERS, Phase, traffic

REQUESTS_PER_SECOND: Final = 5.0
MAX_SETTLE_S: Final = 300.0
"""A target that is not held again by then is not held: five minutes at five requests a second.

Slower traffic is given the time in which as many requests come."""
TOLERANCE: Final = 0.02 / 0.30
LIMIT: Final = 0.04 / 0.30
"""Relative to the target: two points and four points of a full share of 0.30."""

FULL_SHARE: Final = BudgetConfig(metric=Metric.FULL_SHARE, target=0.30)
COST_PER_REQUEST: Final = BudgetConfig(metric=Metric.COST_PER_REQUEST, target=5e-4)
COST_PER_HOUR: Final = BudgetConfig(metric=Metric.COST_PER_HOUR, target=12.0)
ENGINE_SECONDS: Final = BudgetConfig(metric=Metric.ENGINE_SECONDS_PER_REQUEST, target=1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Traffic with a change in it, and the terms to be held."""

    about: str
    phases: tuple[Phase, ...]
    config: BudgetConfig = FULL_SHARE
    judged_from: int = 1
    """The phase at whose beginning the clock of settling starts."""
    window_s: float = WINDOW_S
    max_settle_s: float = MAX_SETTLE_S

    @property
    def since_s(self) -> float:
        """When that is."""
        return sum(phase.duration_s for phase in self.phases[: self.judged_from])

    @property
    def until_s(self) -> float:
        """When the traffic ends."""
        return sum(phase.duration_s for phase in self.phases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One scenario, played once."""

    seconds: Sequence[Second]
    settling: Settling


def play(scenario: Scenario, *, seed: int) -> Run:
    """Play `scenario` against a new controller."""
    arrivals, draws = np.random.default_rng(seed).spawn(2)
    requests = traffic(scenario.phases, TWO_TIERS, arrivals)
    controller = BudgetController(scenario.config, now=0.0)
    seconds = list(simulate(requests, controller, draws, until_s=scenario.until_s))
    target = scenario.config.target
    judged = settling(
        seconds,
        target=target,
        since_s=scenario.since_s,
        tolerance=TOLERANCE * target,
        limit=LIMIT * target,
        window_s=scenario.window_s,
        is_per_hour=scenario.config.metric.is_per_hour,
    )
    return Run(seconds=seconds, settling=judged)


def scenarios(requests_per_second: float = REQUESTS_PER_SECOND) -> Mapping[str, Scenario]:
    """Every scenario by its name, at so many requests a second where nothing else is said.

    Below five a second all times are as much longer.
    """
    stretch = max(1.0, REQUESTS_PER_SECOND / requests_per_second)
    made = _scenarios(requests_per_second, stretch)
    return {
        name: replace(scenario, window_s=WINDOW_S * stretch, max_settle_s=MAX_SETTLE_S * stretch)
        for name, scenario in made.items()
    }


def _scenarios(requests_per_second: float, stretch: float) -> dict[str, Scenario]:
    def phase(duration_s: float, **change: Any) -> Phase:
        usual = Phase(duration_s=duration_s * stretch, requests_per_second=requests_per_second)
        return replace(usual, **change)

    warm = phase(600)
    return {
        "steady": Scenario(about="nothing changes", phases=(warm, phase(900))),
        "harder": Scenario(about="requests become twice as hard", phases=(warm, phase(900, difficulty=2.0))),
        "easier": Scenario(
            about="requests become half as hard", phases=(phase(600, difficulty=2.0), phase(900))
        ),
        "burst": Scenario(
            about="five times the traffic for two minutes",
            phases=(warm, phase(120, requests_per_second=5 * requests_per_second), phase(780)),
        ),
        "silence": Scenario(
            about="ten minutes without a request",
            phases=(warm, phase(600, requests_per_second=0.0), phase(900)),
            judged_from=2,
        ),
        "fast-down": Scenario(
            about="the fast tier is down for five minutes",
            phases=(warm, phase(300, down=frozenset({"fast"})), phase(900)),
            judged_from=2,
        ),
        "full-down": Scenario(
            about="the full tier is down for five minutes",
            phases=(warm, phase(300, down=frozenset({"full"})), phase(900)),
            judged_from=2,
        ),
        "clients": Scenario(
            about="a fifth of the clients begins to ask for the full tier",
            phases=(warm, phase(900, forced_full_share=0.2)),
        ),
        "repeats": Scenario(about="eight requests, over and over", phases=(warm, phase(900, num_prompts=8))),
        "mispriced": Scenario(
            about="answers become twice as long as forecast; held: cost per request",
            phases=(warm, phase(900, realised_over_expected=2.0)),
            config=COST_PER_REQUEST,
        ),
        "hour": Scenario(
            about="three times the traffic, to stay; held: cost per hour",
            phases=(warm, phase(900, requests_per_second=3 * requests_per_second)),
            config=replace(
                COST_PER_HOUR, target=COST_PER_HOUR.target * requests_per_second / REQUESTS_PER_SECOND
            ),
        ),
        "seconds": Scenario(
            about="requests become twice as hard; held: engine seconds per request",
            phases=(warm, phase(900, difficulty=2.0)),
            config=ENGINE_SECONDS,
        ),
        "floor": Scenario(
            about="requests become so hard that the quality floor asks for more than the budget; the floor wins",
            phases=(warm, phase(900, difficulty=2.0)),
            config=replace(FULL_SHARE, quality_floor=0.78),
        ),
        "floor-yields": Scenario(
            about="the same, but the budget wins",
            phases=(warm, phase(900, difficulty=2.0)),
            config=replace(FULL_SHARE, quality_floor=0.78, winner=Winner.BUDGET),
        ),
    }
