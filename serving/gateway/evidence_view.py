"""The evidence as `GET /admin/evidence` shows it: drift and doubt, maps, and calibration by the hour."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from router.calibration_log import CalibrationPeriod
from router.drift import DriftKind, DriftState
from router.evidence import Evidence, EvidenceState


def shown(state: EvidenceState, evidence: Evidence) -> dict[str, Any]:
    """What was found when stock was last taken, and what is known now."""
    return {
        "object": "evidence",
        "artifact_version": evidence.version,
        "is_conservative": bool(state.doubts),
        "conservative_because": [kind.value for kind in state.doubts],
        "num_grades": evidence.num_grades,
        "drift": _drift(state.drift),
        "failed_gates": sorted(state.failed_gates),
        "recalibration": {
            arm: {"kind": used.kind.value, "num_outcomes": used.num_outcomes}
            for arm, used in evidence.maps.items()
        },
        "calibration": {arm: [_period(each) for each in log.periods] for arm, log in evidence.logs.items()},
    }


def _drift(drift: DriftState) -> dict[str, Any]:
    return {
        "alarms": [
            {"kind": reason.kind.value, "name": reason.name, "value": reason.value}
            for reason in drift.reasons
        ],
        "psi": {
            kind.value: {name: psi for (of, name), psi in drift.psi.items() if of is kind}
            for kind in (DriftKind.INPUT, DriftKind.SCORE)
        },
        "shortfalls": dict(drift.shortfalls),
    }


def _period(period: CalibrationPeriod) -> dict[str, Any]:
    return {
        "began": datetime.fromtimestamp(period.began, UTC).isoformat(),
        "num_outcomes": period.num_outcomes,
        "error": period.error,
        "noise": period.noise,
    }
