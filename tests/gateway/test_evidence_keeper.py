"""Evidence in a running gateway: grades that contradict the forecasts, and what becomes of the requests after them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from router.arms import Arm
from router.difficulty import Assessment, StructuralHeuristic
from router.drift import DriftConfig
from router.offer import Metric
from router.policy import RoutingPolicy
from router.request import RequestView
from serving.gateway import evidence as evidence_module
from serving.gateway import ticking
from serving.gateway.feedback import Graded
from serving.gateway.steering import MAX_INLINE_CHARS
from tests.fakes import MockUpstream, Script
from tests.live_gateway import LiveGateway

AUTO = {"model": "auto"}
QUICK = DriftConfig(num_clear=20, min_requests=20, num_learnt=40, num_recent=40.0)
HELD = {"budget": {"metric": "full_share", "target": 0.3, "price_of_compute": 0.6}}


@dataclass(frozen=True)
class Watched(StructuralHeuristic):
    """Counts its assessments and where they were made; what it says of support can be set."""

    is_supported: bool = True
    threads: list[int] = field(default_factory=list)

    def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        self.threads.append(threading.get_ident())
        made = super().assess(view, arms)
        forecasts = {
            arm: replace(forecast, is_supported=self.is_supported) for arm, forecast in made.forecasts.items()
        }
        return Assessment(forecasts=forecasts, inputs=made.inputs)


def gateway_of(upstream: MockUpstream, home: Path, **options: Any) -> LiveGateway:
    settings = {"home": str(home), **options.pop("settings", {})}
    return LiveGateway({"fast": [upstream], "full": [upstream]}, settings=settings, drift=QUICK, **options)


async def graded(gateway: LiveGateway, num: int, *, success: bool) -> None:
    """So many answers of the fast tier, each with the same grade."""
    for _ in range(num):
        answer = await gateway.chat({"model": "fast"})
        body = {"request_id": answer.headers["x-request-id"], "success": success}
        assert (await gateway.http.post("/v1/feedback", json=body)).status_code == 200


def value(gateway: LiveGateway, series: str, /, **labels: str) -> float | None:
    return gateway.metrics.registry.get_sample_value(f"tierwise_{series}", labels)


async def test_grades_that_contradict_the_forecasts_make_it_conservative(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Thirty failures at forecasts near certainty: the header, the metrics, the log and the operator's view all say so,
    λ is lowered, and it is all there after a restart; grades that agree end it."""
    caplog.set_level(logging.INFO)
    async with MockUpstream() as upstream:
        async with gateway_of(upstream, tmp_path) as gateway:
            usual = gateway.budget.pricing.price_of_compute
            assert "x-tierwise-conservative" not in (await gateway.chat(AUTO)).headers
            await graded(gateway, 30, success=False)
            gateway.evidence.tick()
            assert (await gateway.chat(AUTO)).headers["x-tierwise-conservative"] == "outcome"
            assert gateway.budget.pricing.price_of_compute == pytest.approx(usual / 1.5)
            assert value(gateway, "router_is_conservative") == 1
            assert value(gateway, "drift_alarm", kind="outcome") == 1
            assert value(gateway, "drift_alarm", kind="input") == 0
            assert value(gateway, "calibration_outcomes", arm="fast") == 30
            error = value(gateway, "calibration_error", arm="fast")
            assert error is not None
            assert error > 0.9
            assert "conservative mode is on: outcome fast" in caplog.text
            await gateway.evidence.save()
        async with gateway_of(upstream, tmp_path) as gateway:
            assert (await gateway.chat(AUTO)).headers["x-tierwise-conservative"] == "outcome"
            shown = (await gateway.http.get("/admin/evidence")).json()
            assert (shown["is_conservative"], shown["conservative_because"]) == (True, ["outcome"])
            assert shown["num_grades"] == 30
            (alarm,) = shown["drift"]["alarms"]
            assert (alarm["kind"], alarm["name"]) == ("outcome", "fast")
            assert sum(hour["num_outcomes"] for hour in shown["calibration"]["fast"]) == 30
            await graded(gateway, 60, success=True)
            gateway.evidence.tick()
            assert "x-tierwise-conservative" not in (await gateway.chat(AUTO)).headers
            assert gateway.budget.pricing.price_of_compute == usual
            assert "conservative mode is off" in caplog.text


async def test_a_held_budget_allows_more_while_in_doubt(tmp_path: Path) -> None:
    """The target is half as much again, and the budget's own metrics say why."""
    async with MockUpstream() as upstream, gateway_of(upstream, tmp_path, settings=HELD) as gateway:
        await graded(gateway, 30, success=False)
        gateway.evidence.tick()
        gateway.budget.tick()
        assert value(gateway, "budget_target", metric="full_share") == pytest.approx(0.45)
        assert value(gateway, "budget_is_conservative", metric="full_share") == 1
        gateway.budget.change(
            gateway.budget.terms.model_copy(update={"metric": Metric.COST_PER_REQUEST, "target": 1.0})
        )
        assert gateway.budget.state is not None
        assert gateway.budget.state.target == 1.5


async def test_forecasts_are_bent_to_grades(tmp_path: Path) -> None:
    """After sixty failures the fast tier is forecast lower, and the ledger keeps what the model itself said."""
    async with MockUpstream() as upstream, gateway_of(upstream, tmp_path) as gateway:
        before = float((await gateway.chat()).headers["x-tierwise-success-probability"])
        await graded(gateway, 60, success=False)
        await gateway.evidence.refit()
        answer = await gateway.chat()
        assert float(answer.headers["x-tierwise-success-probability"]) < before - 0.2
        told = gateway.books.decisions[-1]
        assert told.success_probability is not None
        assert told.success_probability < before - 0.2
        assert f'"raw":{before:.4f}'[:10] in told.candidates
        assert value(gateway, "recalibration_map", arm="fast", kind="platt") == 1
        assert value(gateway, "recalibration_outcomes", arm="fast") == 60


async def test_a_grade_counts_once_and_only_for_its_model(tmp_path: Path) -> None:
    """A grade that is changed, or of a request that another model decided, is recorded and teaches nothing."""
    async with MockUpstream() as upstream, gateway_of(upstream, tmp_path) as gateway:
        answer = await gateway.chat()
        for success in (True, False):
            body = {"request_id": answer.headers["x-request-id"], "success": success}
            await gateway.http.post("/v1/feedback", json=body)
        assert gateway.evidence.shown()["num_grades"] == 1
        old = Graded(
            key=None,
            arm="fast",
            tier="fast",
            success_probability=0.9,
            model_probability=0.9,
            propensity=1.0,
            artifact_version="another",
        )
        gateway.feedback.grade("old", old, source="client", score=0.0)
        assert gateway.evidence.shown()["num_grades"] == 1
        assert len(gateway.books.feedback) == 3


async def test_inputs_that_change_make_it_conservative(tmp_path: Path) -> None:
    """Long prompts after short ones: the feature's index is shown, the alarm is raised and the header names it."""
    async with MockUpstream() as upstream, gateway_of(upstream, tmp_path) as gateway:
        for i in range(45):
            await gateway.chat({"messages": [{"role": "user", "content": "word " * (i % 7 + 1)}]})
        gateway.evidence.tick()
        index = value(gateway, "drift_index", kind="input", name="length")
        assert index is not None
        assert index < 0.25
        for _ in range(80):
            await gateway.chat({"messages": [{"role": "user", "content": "word " * 600}]})
        gateway.evidence.tick()
        index = value(gateway, "drift_index", kind="input", name="length")
        assert index is not None
        assert index > 0.25
        kinds = (await gateway.chat(AUTO)).headers["x-tierwise-conservative"].split(",")
        assert kinds[0] == "input"


@pytest.mark.parametrize("settings", [{}, HELD])
async def test_what_the_model_does_not_know_goes_up(settings: dict[str, Any], tmp_path: Path) -> None:
    """A request out of distribution gets the strongest tier; while a budget is held, no more than its ration."""
    policy = RoutingPolicy(Watched(is_supported=False))
    async with (
        MockUpstream() as upstream,
        gateway_of(upstream, tmp_path, policy=policy, settings=settings) as gateway,
    ):
        first = await gateway.chat(AUTO)
        assert (first.headers["x-tierwise-tier"], first.headers["x-tierwise-reason"]) == (
            "full",
            "out_of_distribution",
        )
        asked = await gateway.chat({"model": "fast"})
        assert (asked.headers["x-tierwise-tier"], asked.headers["x-tierwise-reason"]) == (
            "fast",
            "client_model",
        )
        tiers = [(await gateway.chat(AUTO)).headers["x-tierwise-tier"] for _ in range(60)]
        if settings:
            assert 15 <= tiers.count("full") <= 15 + 60 * 0.15 + 1
        else:
            assert set(tiers) == {"full"}


async def test_a_request_is_forecast_once(tmp_path: Path) -> None:
    """However many attempts it takes."""
    model = Watched()
    async with (
        MockUpstream(Script(status=500)) as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}, policy=RoutingPolicy(model)) as gateway,
    ):
        assert (await gateway.chat(AUTO)).headers["x-tierwise-tier"] == "full"
        assert gateway.books.decisions[0].num_attempts == 2
        assert len(model.threads) == 1


async def test_a_long_request_is_forecast_in_a_thread(tmp_path: Path) -> None:
    """Above the bound the event loop is free meanwhile; below it a thread would cost more than it saves."""
    model = Watched()
    async with (
        MockUpstream() as upstream,
        gateway_of(upstream, tmp_path, policy=RoutingPolicy(model)) as gateway,
    ):
        for num_chars in (MAX_INLINE_CHARS, MAX_INLINE_CHARS + 1):
            await gateway.chat({"messages": [{"role": "user", "content": "x" * num_chars}]})
    inline, long = (thread == threading.get_ident() for thread in model.threads)
    assert (inline, long) == (True, False)


async def test_while_it_is_entered_it_takes_stock_refits_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anybody else the alarm is raised, the maps are fitted and the file is there before the end."""
    monkeypatch.setattr(ticking, "TICK_S", 0.01)
    monkeypatch.setattr(evidence_module, "SAVE_EVERY_S", 0.02)
    async with MockUpstream() as upstream, gateway_of(upstream, tmp_path) as gateway:
        async with gateway.evidence:
            await graded(gateway, 60, success=False)
            await gateway.until(
                lambda: (
                    gateway.evidence.state.doubts
                    and gateway.evidence.shown()["recalibration"]
                    and (tmp_path / "evidence.json").exists()
                )
            )
        assert value(gateway, "router_is_conservative") == 1


async def test_a_failure_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What goes wrong in taking stock is in the log, and stock is taken again."""
    monkeypatch.setattr(ticking, "TICK_S", 0.01)
    calls = []

    def broken() -> None:
        calls.append(1)
        raise ValueError("a bug")

    async with MockUpstream() as upstream, gateway_of(upstream, tmp_path) as gateway:
        monkeypatch.setattr(gateway.evidence, "tick", broken)
        async with gateway.evidence, asyncio.timeout(5):
            while len(calls) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert "forecasts stay" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [{}, {"schema": 99}, {"version": "another"}, {"drift": None}, {"logs": {"fast": [{}]}}, {"judged": 7}],
)
async def test_a_state_that_does_not_fit_begins_anew(
    damage: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another model's, another version's, or one with members missing: a warning and a new beginning."""
    async with MockUpstream() as upstream:
        async with gateway_of(upstream, tmp_path) as gateway:
            await graded(gateway, 30, success=False)
            await gateway.evidence.save()
            file = gateway.evidence._file
            saved = file.read()
            assert saved is not None
            file.write({**saved, **damage} if damage else {})
        async with gateway_of(upstream, tmp_path) as gateway:
            assert "begins anew" in caplog.text
            assert gateway.evidence.shown()["num_grades"] == 0
            assert "x-tierwise-conservative" not in (await gateway.chat(AUTO)).headers
