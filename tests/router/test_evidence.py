"""The loop of evidence, put together: grades raise the flag, the flag buys time, the grades mend the forecasts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from router.artifact_header import ArmFigures, ArtifactHeader
from router.budget import BudgetController
from router.budget_config import BudgetConfig
from router.difficulty import Assessment, Forecast
from router.doubt import DoubtKind
from router.drift import DriftConfig, DriftKind
from router.evidence import Evidence, Grade, Known, known_of
from router.histogram import reference
from router.offer import Metric, Offer
from router.recalibration import MapKind, fitted
from router.staircase import banded, staircase
from router.workload import TWO_TIERS, Phase, Request, traffic

BEGIN, CHANGE, END = 0.0, 900.0, 3600.0
GRADED_SHARE = 0.3


@dataclass
class Loop:
    """A gateway without the gateway: it decides, takes grades in, checks every second and refits every minute."""

    mends: bool
    evidence: Evidence = field(default_factory=lambda: Evidence("made-up", watched=(), arms=("fast", "full")))
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
                is_conservative = DoubtKind.OUTCOME in self.evidence.check().doubts
                controller.set_conservative(is_conservative)
                controller.tick(second)
                self.flags.append((second, is_conservative))
                if self.mends and self.evidence.needs_refit:
                    self.evidence.end_refit(fitted(self.evidence.begin_refit()))
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
            raw, decided = (each.arms[chosen].success_probability for each in (request.offer, offer))
            grade = Grade(arm=name, model_probability=raw, probability=decided, success=success)
            self.evidence.observe_grade(request.at, grade)
        p = offer.arms[chosen].success_probability
        self.rows.append({"at": request.at, "full": name == "full", "p": p, "success": success})

    def mended(self, request: Request) -> Offer:
        forecasts = {
            name: Forecast(success_probability=arm.success_probability, num_output_tokens=1.0)
            for arm, name in zip(request.offer.arms, request.names, strict=True)
        }
        self.evidence.observe_request(Assessment(forecasts=forecasts))
        mended = self.evidence.calibrated(forecasts)
        arms = tuple(
            replace(arm, success_probability=mended[name].success_probability)
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
    assert {reason.kind for reason in warning.evidence.check().drift.reasons} == {DriftKind.OUTCOME}


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


ARMS = ("fast", "full")
UNIFORM = reference([i / 1000 for i in range(1000)])
SMALL = DriftConfig(min_requests=50, num_recent=100.0, num_learnt=200, num_clear=50)


def assessment(rng: np.random.Generator, *, shift: float = 0.0, score: float = 0.8) -> Assessment:
    forecasts = {arm: Forecast(success_probability=score, num_output_tokens=9.0) for arm in ARMS}
    return Assessment(forecasts=forecasts, inputs={"length": float(rng.random()) + shift})


def watching(known: Known | None = None, version: str = "v") -> Evidence:
    known = known or Known(inputs={"length": UNIFORM})
    return Evidence(version, watched=("length",), arms=ARMS, known=known, config=SMALL)


def serve(evidence: Evidence, rng: np.random.Generator, num: int, **more: float) -> tuple[DoubtKind, ...]:
    for _ in range(num):
        evidence.observe_request(assessment(rng, **more))
    return evidence.check().doubts


def grade(evidence: Evidence, rng: np.random.Generator, num: int, *, p: float, truth: float) -> None:
    """So many grades of each arm, of forecasts p that come true with another probability."""
    for _ in range(num):
        for arm in ARMS:
            success = float(rng.random() < truth)
            evidence.observe_grade(0.0, Grade(arm=arm, model_probability=p, probability=p, success=success))
        if evidence.needs_refit:
            evidence.end_refit(fitted(evidence.begin_refit()))


def test_a_shift_of_inputs_is_a_doubt_until_it_ends() -> None:
    """The router is conservative while what is asked is far from the reference, says so, and comes back by itself."""
    evidence, rng = watching(), np.random.default_rng(0)
    assert serve(evidence, rng, 300) == ()
    assert serve(evidence, rng, 300, shift=0.7) == (DoubtKind.INPUT,)
    assert evidence.check().drift.reasons[0].name == "length"
    assert serve(evidence, rng, 1000) == ()


def test_outcomes_after_the_alarm_end_a_doubt_about_inputs() -> None:
    """Grades from before the shift do not count, forecasts that hold after it do, for every arm; the alarm stands."""
    evidence, rng = watching(), np.random.default_rng(0)
    grade(evidence, rng, 300, p=0.8, truth=0.8)
    assert evidence.check().is_proven
    assert serve(evidence, rng, 300, shift=0.7) == (DoubtKind.INPUT,)
    assert not evidence.check().is_proven
    grade(evidence, rng, 300, p=0.8, truth=0.8)
    assert evidence.check().doubts == ()
    assert {reason.kind for reason in evidence.check().drift.reasons} == {DriftKind.INPUT}


def test_without_a_reference_the_first_scores_are_it() -> None:
    """A model that was fitted on nothing is watched against what it said first."""
    evidence, rng = Evidence("h", watched=(), arms=ARMS, config=SMALL), np.random.default_rng(0)

    def scores(low: float, num: int) -> None:
        for _ in range(num):
            evidence.observe_request(assessment(rng, score=low + 0.2 * float(rng.random())))

    scores(0.7, 500)
    assert evidence.check().doubts == ()
    scores(0.3, 300)
    assert evidence.check().doubts == (DoubtKind.SCORE,)


def test_a_held_out_error_closes_the_gate_and_outcomes_open_it() -> None:
    """An artifact that was badly calibrated is in doubt from the start, until enough of its outcomes come true."""
    evidence = watching(Known(held_out_errors={"fast": 0.2, "full": 0.01}))
    assert (evidence.failed_gates, evidence.check().doubts) == ({"fast"}, (DoubtKind.CALIBRATION,))
    grade(evidence, np.random.default_rng(0), 300, p=0.8, truth=0.8)
    assert evidence.check().doubts == ()


def test_forecasts_that_are_too_low_are_doubted_too() -> None:
    """Success well above the forecast is no shortfall, and the probabilities are wrong all the same."""
    evidence = watching()
    grade(evidence, np.random.default_rng(0), 300, p=0.5, truth=0.9)
    assert evidence.check().doubts == (DoubtKind.CALIBRATION,)


def test_forecasts_are_bent_once_there_is_support() -> None:
    """With few grades the forecast is the model's own; with many it is near what came of it, and keeps the model's."""
    evidence, rng = watching(), np.random.default_rng(0)
    forecasts = assessment(rng).forecasts
    grade(evidence, rng, 20, p=0.8, truth=0.4)
    assert evidence.calibrated(forecasts) == forecasts
    grade(evidence, rng, 380, p=0.8, truth=0.4)
    bent = evidence.calibrated(forecasts)["fast"]
    assert bent.success_probability == pytest.approx(0.4, abs=0.1)
    assert bent.raw_probability == 0.8
    assert evidence.maps["fast"].kind is not MapKind.IDENTITY


def test_a_restart_changes_nothing() -> None:
    """Restored from JSON, it says and forecasts the same, and goes on the same; another model's state is refused."""
    one, rng = watching(), np.random.default_rng(0)
    serve(one, rng, 300, shift=0.7)
    grade(one, rng, 333, p=0.8, truth=0.4)
    other = watching()
    other.restore(json.loads(json.dumps(one.plain())))
    for evidence in (one, other):
        evidence.end_refit(fitted(evidence.begin_refit()))
    assert other.check() == one.check()
    forecasts = assessment(rng).forecasts
    assert other.calibrated(forecasts) == one.calibrated(forecasts)
    for evidence in (one, other):
        grade(evidence, np.random.default_rng(1), 50, p=0.8, truth=0.8)
    assert other.plain() == one.plain()
    with pytest.raises(ValueError, match="version"):
        watching(version="another").restore(one.plain())


def test_an_artifact_says_what_is_known() -> None:
    """References and held-out errors come from its header; what chance makes of an error is taken off it."""
    figures = ArmFigures(
        num_outcomes=240,
        success_share=0.5,
        auc=0.7,
        brier_score=0.2,
        calibration_error=0.2,
        calibration_noise=0.05,
    )
    header = ArtifactHeader(
        version="v",
        arms=ARMS,
        num_prompts=1,
        num_groups=1,
        data_sha256="",
        recipe={},
        metrics={},
        figures={"fast": figures},
        feature_references={"length": UNIFORM},
        score_references={"fast": UNIFORM},
    )
    known = known_of(header)
    assert (known.inputs, known.scores) == ({"length": UNIFORM}, {"fast": UNIFORM})
    assert known.held_out_errors["fast"] == pytest.approx(0.15)
    assert watching(known).check().doubts == (DoubtKind.CALIBRATION,)
