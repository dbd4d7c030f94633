"""The Prometheus series of the evidence: drift, conservative mode, and how well forecasts hold from hour to hour."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prometheus_client import CollectorRegistry, Gauge

from router.calibration_log import CalibrationLog
from router.doubt import DoubtKind
from router.drift import DriftKind
from router.evidence import EvidenceState
from router.recalibration import MapKind, Recalibration


class EvidenceSeries:
    """Shows them as gauges. Names are those of the model's features and of the configured arms."""

    def __init__(self, registry: CollectorRegistry, *, arms: Collection[str]) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"tierwise_{name}", text, labels, registry=registry)

        self._arms = frozenset(arms)
        self._is_conservative = gauge(
            "router_is_conservative", "1 while forecasts are in doubt and more compute is bought."
        )
        self._doubt = gauge("router_doubt", "1 while this is a reason to be conservative.", "kind")
        self._alarm = gauge("drift_alarm", "1 while an alarm of this kind stands.", "kind")
        self._index = gauge(
            "drift_index",
            "Population stability index of an input or of an arm's scores; above 0.25 much has changed.",
            "kind",
            "name",
        )
        self._shortfall = gauge(
            "drift_shortfall", "Forecast less outcome on average, since the last look at the arm.", "arm"
        )
        self._gate = gauge("calibration_gate_failed", "1 while an arm's probabilities do not hold.", "arm")
        self._outcomes = gauge("calibration_outcomes", "Graded answers of the latest hour with any.", "arm")
        self._error = gauge(
            "calibration_error", "Their expected calibration error, ten bins; 0 is best.", "arm"
        )
        self._noise = gauge("calibration_noise", "As much of it perfect forecasts would show.", "arm")
        self._map_outcomes = gauge(
            "recalibration_outcomes", "Graded answers that an arm's map was fitted on.", "arm"
        )
        self._map = gauge("recalibration_map", "1 for the kind of map in use.", "arm", "kind")

    def show(self, state: EvidenceState) -> None:
        """Show what the evidence says now."""
        self._is_conservative.set(bool(state.doubts))
        for doubt in DoubtKind:
            self._doubt.labels(doubt.value).set(doubt in state.doubts)
        alarmed = {reason.kind for reason in state.drift.reasons}
        for kind in DriftKind:
            self._alarm.labels(kind.value).set(kind in alarmed)
        for (drift_kind, name), index in state.drift.psi.items():
            self._index.labels(drift_kind.value, name).set(index)
        for arm, shortfall in state.drift.shortfalls.items():
            if arm in self._arms:
                self._shortfall.labels(arm).set(shortfall)
        for arm in self._arms:
            self._gate.labels(arm).set(arm in state.failed_gates)

    def show_calibration(self, logs: Mapping[str, CalibrationLog]) -> None:
        """Show each arm's latest hour."""
        for arm, log in logs.items():
            latest = log.periods[-1]
            if arm in self._arms and latest.error is not None and latest.noise is not None:
                self._outcomes.labels(arm).set(latest.num_outcomes)
                self._error.labels(arm).set(latest.error)
                self._noise.labels(arm).set(latest.noise)

    def show_maps(self, maps: Mapping[str, Recalibration]) -> None:
        """Show how each arm's forecasts are bent."""
        for arm, used in maps.items():
            if arm in self._arms:
                self._map_outcomes.labels(arm).set(used.num_outcomes)
                for kind in MapKind:
                    self._map.labels(arm, kind.value).set(kind is used.kind)
