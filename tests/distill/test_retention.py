"""What a student kept of its teacher, by hand."""

from __future__ import annotations

import pytest

from distill.retention import last_retention, retention
from train.evaluate import DomainScore, Evaluation, Score


def _evaluation(**scores: list[float]) -> Evaluation:
    return Evaluation(
        tuple(
            DomainScore(
                domain=name,
                num_items=len(each),
                greedy=Score.of(each),
                sampled=None,
                num_errors=0,
                mean_tokens=3.0,
            )
            for name, each in scores.items()
        )
    )


TEACHER = _evaluation(sums=[1.0, 1.0, 0.0, 0.0], words=[0.0, 0.0])
STUDENT = _evaluation(sums=[1.0, 0.0, 0.0, 0.0], words=[0.0, 1.0])


def test_shares_are_of_means() -> None:
    """A row a domain, and macro means at the end; of a teacher who can do nothing there is no share."""
    sums, words, both = retention(STUDENT, TEACHER)
    assert (sums.share, words.share) == (0.5, None)
    assert (both.domain, both.num_items) == ("all", 6)
    assert both.share == pytest.approx(0.375 / 0.25)
    with pytest.raises(ValueError, match="not asked the same items"):
        retention(_evaluation(sums=[1.0]), TEACHER)


def test_the_last_evaluation_counts() -> None:
    """Of a run's lines; nothing where the teacher was not asked yet."""
    lines = [
        {"phase": "evaluation", "when": "teacher", "evaluation": TEACHER.plain()},
        {"phase": "evaluation", "when": "cut", "evaluation": TEACHER.plain()},
        {"phase": "kd", "step": 1},
        {"phase": "evaluation", "when": "after_kd", "evaluation": STUDENT.plain()},
    ]
    assert last_retention(lines, "teacher") == retention(STUDENT, TEACHER)
    assert last_retention(lines[1:], "teacher") == []
