"""The last grades of each arm beside what had been forecast: how well the forecasts hold, as far as anybody says.

Sums are kept, so that a grade costs the event loop the same however many there are.
"""

from __future__ import annotations

from typing import Final

from router.calibration_log import CalibrationPeriod
from serving.gateway.recent import Recent
from serving.telemetry.feedback_series import FeedbackSeries

MAX_GRADES: Final = 1000
"""Of each arm: a request each, by its last grade."""


class Grades:
    """Takes grades and shows what they say of each arm."""

    def __init__(self, series: FeedbackSeries) -> None:
        self._series = series
        self._by_arm: dict[str, _Last] = {}

    def take(self, arm: str, request_id: str, *, probability: float, score: float) -> None:
        """A request was graded, for the first time or anew."""
        last = self._by_arm.setdefault(arm, _Last())
        last.put(request_id, probability, score)
        self._series.show(
            arm,
            num_outcomes=last.sums.num_outcomes,
            mean_score=sum(last.sums.successes) / last.sums.num_outcomes,
            calibration_error=last.sums.error or 0.0,
            brier_score=last.squares / last.sums.num_outcomes,
        )


class _Last:
    """The grades of one arm, and their sums."""

    def __init__(self) -> None:
        self._grades: Recent[str, tuple[float, float]] = Recent(MAX_GRADES)
        self.sums = CalibrationPeriod(began=0.0)
        self.squares = 0.0
        """Of forecast less grade."""

    def put(self, request_id: str, probability: float, score: float) -> None:
        gone = self._grades.put(request_id, (probability, score))
        self.sums.add(probability, score)
        self.squares += (probability - score) ** 2
        if gone is not None:
            self.sums.take_back(*gone)
            self.squares -= (gone[0] - gone[1]) ** 2
