"""Rewritten prompts: what counts as a flip, and what a fitted model does with them."""

from __future__ import annotations

import numpy as np
import pytest

from router.features import read
from router.outcomes import Share
from router.robustness import REWRITINGS, robustness

GAINS = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])


def of_gains(gains: np.ndarray) -> np.ndarray:
    return np.stack((np.zeros(len(gains)), gains), axis=1)


def test_worked_flips() -> None:
    """At a share of 0.3 the threshold is 0.63: 0.6 is doubtful, and of the other nine the two that cross it flip."""
    others = GAINS.copy()
    others[[2, 6, 9]] = 0.7, 0.9, 0.1
    (report,) = robustness(of_gains(GAINS), {"odd": of_gains(others)}, strong_share=0.3, margin=0.05)
    assert report.flips == Share(num=2, num_all=9)
    assert report.num_prompts == 10
    assert report.mean_change == pytest.approx((0.5 + 0.3 + 0.8) / 20)
    assert report.mean_gain_change == pytest.approx(0.0)


def test_what_changes_nothing_flips_nothing() -> None:
    """Equal probabilities are equal decisions, also where many prompts have the same gain."""
    same = of_gains(np.repeat([0.1, 0.4], 10))
    (report,) = robustness(same, {"same": same})
    assert (report.flips.num, report.mean_change) == (0, 0)


@pytest.mark.parametrize("name", list(REWRITINGS))
def test_rewritings_keep_the_task(name: str) -> None:
    """Every word of the prompt is still there, in its order, whatever stands around it."""
    prompt = "What is 12 × 7?\nAnswer with the number only; don't explain."
    words = read((prompt,)).words
    rewritten = iter(read(tuple(REWRITINGS[name](prompt))).words)
    assert all(word in rewritten for word in words)


def test_rewritings_change_something() -> None:
    """None of them gives the prompt back as it was."""
    assert all(tuple(rewrite("How old is Ann?")) != ("How old is Ann?",) for rewrite in REWRITINGS.values())
