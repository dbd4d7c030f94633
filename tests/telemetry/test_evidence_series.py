"""The evidence in Prometheus: bounded labels, and every state at its place."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from router.calibration_log import CalibrationLog
from router.drift import DriftKind, DriftReason, DriftState
from router.evidence import EvidenceState
from router.recalibration import MapKind, Recalibration
from serving.telemetry.evidence_series import EvidenceSeries


def state(*reasons: DriftReason, failed_gates: frozenset[str] = frozenset()) -> EvidenceState:
    drift = DriftState(
        reasons=reasons,
        psi={(DriftKind.INPUT, "length"): 0.4, (DriftKind.SCORE, "fast"): 0.01},
        shortfalls={"fast": 0.2, "gone": 0.9},
    )
    return EvidenceState(drift=drift, failed_gates=failed_gates, is_proven=False)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def series(registry: CollectorRegistry) -> EvidenceSeries:
    return EvidenceSeries(registry, arms=["fast", "full"])


def test_an_alarm_is_shown_and_taken_back(registry: CollectorRegistry, series: EvidenceSeries) -> None:
    """1 while it stands and 0 after it, by kind; the sum of it is whether the router is conservative."""
    alarm = DriftReason(kind=DriftKind.INPUT, name="length", value=0.4)
    series.show(state(alarm, failed_gates=frozenset({"full"})))
    assert registry.get_sample_value("tierwise_router_is_conservative") == 1
    for kind, is_up in (("input", 1), ("score", 0), ("outcome", 0), ("calibration", 1)):
        assert registry.get_sample_value("tierwise_router_doubt", {"kind": kind}) == is_up
    assert registry.get_sample_value("tierwise_drift_alarm", {"kind": "input"}) == 1
    assert registry.get_sample_value("tierwise_drift_index", {"kind": "score", "name": "fast"}) == 0.01
    assert registry.get_sample_value("tierwise_calibration_gate_failed", {"arm": "full"}) == 1
    series.show(state())
    assert registry.get_sample_value("tierwise_router_is_conservative") == 0
    assert registry.get_sample_value("tierwise_drift_alarm", {"kind": "input"}) == 0
    assert registry.get_sample_value("tierwise_calibration_gate_failed", {"arm": "full"}) == 0


def test_the_latest_hour_and_the_map_in_use(registry: CollectorRegistry, series: EvidenceSeries) -> None:
    """Ten forecasts of 0.9 of which five came true are off by 0.4; of the kinds of map one is 1."""
    log = CalibrationLog()
    log.observe(0.0, probability=0.1, success=0.0)
    for i in range(10):
        log.observe(4000.0, probability=0.9, success=float(i % 2))
    series.show_calibration({"fast": log})
    series.show_maps({"fast": Recalibration(kind=MapKind.PLATT, num_outcomes=70)})
    fast = {"arm": "fast"}
    assert registry.get_sample_value("tierwise_calibration_error", fast) == pytest.approx(0.4)
    assert registry.get_sample_value("tierwise_calibration_outcomes", fast) == 10
    assert registry.get_sample_value("tierwise_recalibration_outcomes", fast) == 70
    kinds = [
        registry.get_sample_value("tierwise_recalibration_map", {**fast, "kind": kind}) for kind in MapKind
    ]
    assert kinds == [0, 1, 0]


def test_arms_that_are_not_configured_have_no_series(
    registry: CollectorRegistry, series: EvidenceSeries
) -> None:
    """Arms of an old ledger, or of an old state, make no labels."""
    series.show(state())
    log = CalibrationLog()
    log.observe(0.0, probability=0.1, success=0.0)
    series.show_calibration({"gone": log})
    series.show_maps({"gone": Recalibration()})
    assert "gone" not in str([sample.labels for metric in registry.collect() for sample in metric.samples])
