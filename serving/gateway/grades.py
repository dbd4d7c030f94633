"""The last grades of each arm beside what had been forecast: how well the forecasts hold, as far as anybody says."""

from __future__ import annotations

from typing import Final

import numpy as np

from router.calibration import brier_score, expected_calibration_error
from serving.gateway.recent import Recent
from serving.telemetry.feedback_series import FeedbackSeries

MAX_GRADES: Final = 1000
"""Of each arm: a request each, by its last grade."""


class Grades:
    """Takes grades and shows what they say of each arm."""

    def __init__(self, series: FeedbackSeries) -> None:
        self._series = series
        self._by_arm: dict[str, Recent[str, tuple[float, float]]] = {}

    def take(self, arm: str, request_id: str, *, probability: float, score: float) -> None:
        """A request was graded, for the first time or anew."""
        grades = self._by_arm.setdefault(arm, Recent(MAX_GRADES))
        grades.put(request_id, (probability, score))
        probabilities, scores = np.array(list(grades.values())).T
        self._series.show(
            arm,
            num_outcomes=len(scores),
            mean_score=float(scores.mean()),
            calibration_error=expected_calibration_error(probabilities, scores),
            brier_score=brier_score(probabilities, scores),
        )
