"""A hundred thousand requests through all that the router remembers, without HTTP: memory is flat once it is full."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from router.arms import Arm, Capabilities, Price
from router.difficulty import Assessment, Forecast, StructuralHeuristic
from router.evidence import Evidence
from router.offer import Metric
from router.policy import RoutingPolicy
from router.request import RequestView
from serving.budget_settings import BudgetSettings
from serving.gateway import evidence, feedback, grades
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.evidence import EvidenceKeeper
from serving.gateway.feedback import Feedback
from serving.gateway.session import Sessions
from serving.gateway.state_file import StateFile
from serving.gateway.steering import Steering
from serving.ledger.records import FeedbackRecord
from serving.telemetry.budget_series import BudgetSeries
from serving.telemetry.evidence_series import EvidenceSeries
from serving.telemetry.feedback_series import FeedbackSeries

NUM_REQUESTS, NUM_WARM = 100_000, 40_000
MAX_NEW_BLOCKS = 6000
"""Of the interpreter's memory: a tenth of one a request."""
PER_SECOND, GRADED_EVERY = 50, 5
ARMS = tuple(
    Arm(
        name=name,
        tier=name,
        strength=strength,
        price=Price(input=0, output=1.0 + 3 * strength),
        capabilities=Capabilities(context_tokens=4096),
    )
    for strength, name in enumerate(("fast", "full"))
)


@dataclass(frozen=True)
class Cheap(StructuralHeuristic):
    """Reads nothing but the number of characters, so that the test is about memory."""

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        h = view.num_chars % 64 / 64
        forecasts = {
            arm.name: Forecast(
                success_probability=1 - h * (0.9 - 0.7 * arm.strength),
                num_output_tokens=100.0,
                is_supported=view.num_chars % 101 != 0,
            )
            for arm in arms
        }
        return Assessment(forecasts=forecasts, inputs=dict.fromkeys(self.watched, h))


class Nowhere:
    """A ledger that keeps nothing."""

    def record_feedback(self, record: FeedbackRecord) -> None:
        pass


class Soak:
    """Steering with all its parts, on a clock of its own."""

    def __init__(self, home: Path) -> None:
        self.now, self.rng, registry = 0.0, random.Random(0), CollectorRegistry()
        names = [arm.name for arm in ARMS]
        budget = BudgetKeeper(
            BudgetSettings(metric=Metric.FULL_SHARE, target=0.3),
            StateFile(home / "budget.json"),
            BudgetSeries(registry),
            monotonic=lambda: self.now,
            wall_clock=lambda: 1e9 + self.now,
        )
        model = Cheap()
        self.evidence = EvidenceKeeper(
            lambda: Evidence(model.version, watched=model.watched, arms=names),
            budget,
            StateFile(home / "evidence.json"),
            EvidenceSeries(registry, arms=names),
            wall_clock=lambda: 1e9 + self.now,
        )

        async def nobody_knows(_: str) -> None:
            return None

        self.feedback = Feedback(
            Nowhere(),  # type: ignore[arg-type]
            nobody_knows,
            self.evidence,
            FeedbackSeries(registry, arms=names),
            wall_clock=lambda: 1e9 + self.now,
        )
        self.steering = Steering(
            RoutingPolicy(model, exploration_share=0.02),
            budget,
            Sessions(2000),
            self.feedback,
            self.evidence,
            monotonic=lambda: self.now,
            rng=self.rng,
        )

    async def request(self, number: int) -> None:
        view = RequestView(
            endpoint="chat",
            model="auto",
            turns=(f"request {number}",),
            num_chars=self.rng.randrange(4000),
            session=f"s{number}" if number % 3 else f"s{number % 97}",
            num_tools=number % 5 == 0,
        )
        course = self.steering.course(f"r{number}", view, "key")
        await course.assess(ARMS)
        decision = course.decide(ARMS)
        course.follow(decision)
        course.end([], engine_seconds=0.5)
        if number % GRADED_EVERY == 0:
            success = self.rng.random() < decision.success_probability
            await self.feedback.take({"request_id": f"r{number}", "success": success}, "key")
        self.now += 1 / PER_SECOND
        if number % PER_SECOND == 0:
            self.steering.budget.tick()
            self.evidence.tick()
        if number % (60 * PER_SECOND) == 0:
            await self.evidence.refit()


@pytest.mark.timeout(400)
async def test_memory_is_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of requests, decisions, grades, sessions and drift is bounded: once it is full, sixty thousand
    more requests leave nothing behind."""
    for module, name, bound in (
        (feedback, "MAX_REMEMBERED", 2000),
        (evidence, "MAX_REMEMBERED", 2000),
        (grades, "MAX_GRADES", 100),
    ):
        monkeypatch.setattr(module, name, bound)
    soak, num_blocks = Soak(tmp_path), 0
    for number in range(NUM_REQUESTS):
        if number == NUM_WARM:
            gc.collect()
            num_blocks = sys.getallocatedblocks()
        await soak.request(number)
    gc.collect()
    assert sys.getallocatedblocks() - num_blocks < MAX_NEW_BLOCKS, sys.getallocatedblocks() - num_blocks
    assert soak.evidence.shown()["num_grades"] == len(range(0, NUM_REQUESTS, GRADED_EVERY))
    assert soak.steering.budget.state is not None
    assert soak.steering.budget.state.num_offers == 300
