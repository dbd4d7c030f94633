"""What has been learned while serving, put together: drift, recalibration, calibration over time, gates. Pure.

Requests and grades come in; out come the forecasts to decide on, the doubt to decide under, and what to show of both.
Grades are compared with two numbers: the model's own forecast, from which recalibration starts, and the one that was
decided on, which must hold. A restart goes on from `plain`, if the model is the same one.

Inputs and scores that drift are a reason for doubt, not a proof: a model fitted on other requests may hold on these. So
they make the router conservative until enough outcomes that came after the alarm say of every arm that forecasts hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from router.artifact_header import ArtifactHeader
from router.calibration_gate import CalibrationGate
from router.calibration_log import CalibrationLog
from router.difficulty import Assessment, Forecast
from router.doubt import DoubtKind
from router.drift import DriftConfig, DriftKind, DriftMonitor, DriftState
from router.histogram import Reference
from router.recalibration import Recalibration, Recalibrator

STATE_SCHEMA: Final = 1
REFIT_EVERY: Final = 25
"""Outcomes, of all arms."""
MAX_JUDGED: Final = 500
"""Of each arm, as many of the last outcomes are held against the forecasts that were decided on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a fitted model knows of the outcomes it was fitted on. Nothing, for one that was not."""

    inputs: Mapping[str, Reference] = field(default_factory=dict)
    """How what is watched was distributed."""
    scores: Mapping[str, Reference] = field(default_factory=dict)
    """How each arm's forecasts were distributed."""
    held_out_errors: Mapping[str, float] = field(default_factory=dict)
    """Each arm's expected calibration error on outcomes that its model had not seen, less what chance makes of it."""


def known_of(header: ArtifactHeader) -> Known:
    """What an artifact says."""
    return Known(
        inputs=header.feature_references,
        scores=header.score_references,
        held_out_errors={
            arm: max(0.0, figures.calibration_error - figures.calibration_noise)
            for arm, figures in header.figures.items()
        },
    )


NOTHING_KNOWN: Final = Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What came of a request."""

    arm: str
    model_probability: float
    """The model's own forecast."""
    probability: float
    """The forecast that was decided on."""
    success: float
    """In [0, 1]."""


class Evidence:
    """The evidence of one gateway process.

    Args:
        version: names the model; state that was saved under another is left behind.
        watched: names of an assessment's inputs.
        arms: names.
        known: where drift starts from; without it, from the first requests.
    """

    def __init__(
        self,
        version: str,
        *,
        watched: Sequence[str],
        arms: Sequence[str],
        known: Known = NOTHING_KNOWN,
        config: DriftConfig | None = None,
    ) -> None:
        self.version = version
        self.num_grades = 0
        self.logs: dict[str, CalibrationLog] = {}
        self._drift = DriftMonitor(
            config or DriftConfig(),
            {(DriftKind.INPUT, name): known.inputs.get(name) for name in watched}
            | {(DriftKind.SCORE, arm): known.scores.get(arm) for arm in arms},
        )
        self._recalibrator = Recalibrator()
        self._gate = CalibrationGate(known.held_out_errors)
        self._judged: dict[str, deque[tuple[float, float]]] = {}
        self._arms = frozenset(arms)
        self._num_since_refit = 0
        self._is_unlike = False
        """Whether inputs or scores drift."""

    def calibrated(self, forecasts: Mapping[str, Forecast]) -> dict[str, Forecast]:
        """The model's forecasts in the light of recent outcomes."""
        return {arm: self._calibrated(arm, forecast) for arm, forecast in forecasts.items()}

    def _calibrated(self, arm: str, forecast: Forecast) -> Forecast:
        raw = forecast.success_probability
        bent = self._recalibrator.apply(arm, raw)
        return forecast if bent == raw else replace(forecast, success_probability=bent, raw_probability=raw)

    def observe_request(self, assessment: Assessment) -> None:
        """A request came, with what the model itself made of it."""
        self._drift.observe_request(DriftKind.INPUT, assessment.inputs)
        scores = {arm: forecast.success_probability for arm, forecast in assessment.forecasts.items()}
        self._drift.observe_request(DriftKind.SCORE, scores)

    def observe_grade(self, now: float, grade: Grade) -> None:
        """It became known what came of a request; `now` is Unix time and never runs back."""
        arm, success = grade.arm, grade.success
        self._recalibrator.observe(arm, probability=grade.model_probability, success=success)
        self._drift.observe_outcome(arm, probability=grade.probability, success=success)
        self._judged.setdefault(arm, deque(maxlen=MAX_JUDGED)).append((grade.probability, success))
        log = self.logs.setdefault(arm, CalibrationLog())
        log.observe(now, probability=grade.probability, success=success)
        self.num_grades += 1
        self._num_since_refit += 1

    @property
    def needs_refit(self) -> bool:
        """Whether there are outcomes enough that the maps have not seen."""
        return self._num_since_refit >= REFIT_EVERY

    def begin_refit(self) -> Mapping[str, Any]:
        """A copy of the outcomes, for `router.recalibration.fitted`; the gates are judged by them at once."""
        self._num_since_refit = 0
        self._judge()
        return self._recalibrator.outcomes()

    def end_refit(self, maps: Mapping[str, Recalibration]) -> None:
        """Forecasts are bent by these maps from now on."""
        self._recalibrator.use(maps)

    @property
    def maps(self) -> Mapping[str, Recalibration]:
        """The maps in use, by arm."""
        return self._recalibrator.maps

    @property
    def failed_gates(self) -> frozenset[str]:
        """Arms whose probabilities do not hold."""
        return self._gate.failed

    def check(self) -> EvidenceState:
        """Take stock, about once a second; alarms are raised and ended here."""
        drift = self._drift.check()
        is_unlike = any(reason.kind is not DriftKind.OUTCOME for reason in drift.reasons)
        if is_unlike and not self._is_unlike:  # what was judged before says nothing of what comes now
            self._judged.clear()
            self._judge()
        self._is_unlike = is_unlike
        return EvidenceState(
            drift=drift, failed_gates=self._gate.failed, is_proven=self._arms <= self._gate.proven
        )

    def _judge(self) -> None:
        for arm in self._arms | self._judged.keys():
            self._gate.judge(arm, self._judged.get(arm, ()))

    def plain(self) -> dict[str, Any]:
        """What outlives a restart, as numbers, strings and lists."""
        return {
            "schema": STATE_SCHEMA,
            "version": self.version,
            "num_grades": self.num_grades,
            "drift": self._drift.plain(),
            "recalibration": self._recalibrator.plain(),
            "judged": {arm: [list(row) for row in rows] for arm, rows in self._judged.items()},
            "failed_gates": sorted(self._gate.failed),
            "is_unlike": self._is_unlike,
            "logs": {arm: log.plain() for arm, log in self.logs.items()},
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Go on from what `plain` described.

        Raises:
            ValueError: it belongs to another model, or to another version of this.
        """
        for name, wanted in (("schema", STATE_SCHEMA), ("version", self.version)):
            if plain.get(name) != wanted:
                raise ValueError(f"the saved state has {name} {plain.get(name)!r}, not {wanted!r}")
        self._drift.restore(plain["drift"])
        self._recalibrator = Recalibrator.restored(plain["recalibration"])
        for arm, rows in plain["judged"].items():
            self._judged[arm] = deque(((p, success) for p, success in rows), maxlen=MAX_JUDGED)
        self._gate.restore(plain["failed_gates"])
        self._is_unlike = bool(plain["is_unlike"])
        self._judge()
        for arm, periods in plain["logs"].items():
            self.logs.setdefault(arm, CalibrationLog()).restore(periods)
        self.num_grades = int(plain["num_grades"])


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceState:
    """What the evidence says."""

    drift: DriftState
    failed_gates: frozenset[str]
    is_proven: bool
    """Whether recent outcomes say of every arm that its forecasts hold."""

    @property
    def doubts(self) -> tuple[DoubtKind, ...]:
        """Why to be conservative, in the order of the closed list; empty where there is no reason to."""
        kinds = {
            DoubtKind(reason.kind.value)
            for reason in self.drift.reasons
            if reason.kind is DriftKind.OUTCOME or not self.is_proven
        }
        if self.failed_gates:
            kinds.add(DoubtKind.CALIBRATION)
        return tuple(kind for kind in DoubtKind if kind in kinds)
