"""What is said of the last grades is what they come to, looked at all at once."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from router.calibration import brier_score, expected_calibration_error
from serving.gateway import grades as grades_module
from serving.gateway.grades import Grades
from serving.telemetry.feedback_series import FeedbackSeries


def test_sums_are_those_of_the_grades_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through grades that are new, given anew and forgotten, each figure is that of the last ones as defined."""
    monkeypatch.setattr(grades_module, "MAX_GRADES", 40)
    registry = CollectorRegistry()
    grades = Grades(FeedbackSeries(registry, arms=["fast"]))
    rng = np.random.default_rng(0)
    left: dict[str, tuple[float, float]] = {}
    for _ in range(2000):
        name = str(rng.integers(60))
        p, score = float(rng.random()), float(rng.choice((0.0, 0.3, 1.0)))
        grades.take("fast", name, probability=p, score=score)
        left.pop(name, None)
        left[name] = p, score
        if len(left) > 40:
            del left[next(iter(left))]
        probabilities, scores = np.array(list(left.values())).T
        for series, due in (
            ("outcomes", len(left)),
            ("mean_score", scores.mean()),
            ("calibration_error", expected_calibration_error(probabilities, scores)),
            ("brier_score", brier_score(probabilities, scores)),
        ):
            shown = registry.get_sample_value(f"tierwise_feedback_{series}", {"arm": "fast"})
            assert shown == pytest.approx(due, abs=1e-9), series
