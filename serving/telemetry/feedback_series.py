"""The Prometheus series of graded answers: how many, how good, and how far forecasts and grades are apart."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from serving.telemetry.metrics import OTHER


class FeedbackSeries:
    """Moves them. Arms that are not configured count as `other`."""

    def __init__(self, registry: CollectorRegistry, *, arms: Iterable[str]) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"tierwise_feedback_{name}", text, ["arm"], registry=registry)

        self._arms = frozenset(arms)
        self._total = Counter(
            "tierwise_feedback_total", "Grades taken.", ["arm", "source"], registry=registry
        )
        self._outcomes = gauge(
            "outcomes", "Answers that the gauges beside this one look at: the last ones graded."
        )
        self._mean_score = gauge("mean_score", "Their mean grade, in [0, 1].")
        self._calibration_error = gauge(
            "calibration_error",
            "Expected calibration error of their forecasts, ten bins; 0 is best, and chance adds to it.",
        )
        self._brier_score = gauge("brier_score", "Mean squared distance of forecast and grade; 0 is best.")

    def taken(self, arm: str, source: str) -> None:
        """A grade was taken."""
        self._total.labels(self._label(arm), source).inc()

    def show(
        self,
        arm: str,
        *,
        num_outcomes: int,
        mean_score: float,
        calibration_error: float,
        brier_score: float,
    ) -> None:
        """Show what the last grades of an arm say."""
        label = self._label(arm)
        self._outcomes.labels(label).set(num_outcomes)
        self._mean_score.labels(label).set(mean_score)
        self._calibration_error.labels(label).set(calibration_error)
        self._brier_score.labels(label).set(brier_score)

    def _label(self, arm: str) -> str:
        return arm if arm in self._arms else OTHER
