"""What is kept of a shadow run that has ended: attempts, cost, how it ended, and the grade that it has shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from serving.gateway.feedback import Feedback, Graded
from serving.gateway.shadow_run import Run
from serving.ledger.records import SHADOW
from serving.ledger.store import Ledger
from serving.telemetry.shadow_series import RunEnd, ShadowSeries

GRADES: Final[Mapping[RunEnd, float]] = {RunEnd.SUFFICED: 1.0, RunEnd.FELL_SHORT: 0.0}


class ShadowBooks:
    """Ledger, metrics and grades of all runs. Nothing of it is the client's, the tiers' or the budget's.

    Args:
        feedback: takes the grades.
    """

    def __init__(self, ledger: Ledger, feedback: Feedback, series: ShadowSeries) -> None:
        self._ledger = ledger
        self._feedback = feedback
        self._series = series

    def close(self, run: Run) -> None:
        """Enter a run that has ended."""
        for attempt in run.attempts:
            self._ledger.record_attempt(attempt)
            self._series.spent(attempt.arm, attempt.cost)
        self._series.ended(run.end)
        if run.end in GRADES:
            self._grade(run, GRADES[run.end])

    def _grade(self, run: Run, score: float) -> None:
        """The client's request is graded where its arm is the weaker one; else the run, which has an id of its own."""
        decision = run.served.decision
        candidate = next(c for c in decision.candidates if c.arm == run.graded)
        graded = Graded(
            key=run.key,
            arm=candidate.arm,
            tier=candidate.tier,
            success_probability=candidate.success_probability,
            model_probability=candidate.model_probability,
            propensity=run.propensity,
            artifact_version=decision.artifact_version,
        )
        request_id = run.request_id if run.graded == decision.arm else run.account.request_id
        self._feedback.grade(request_id, graded, source=SHADOW, score=score)
