"""How holding is judged, on curves that are known."""

from __future__ import annotations

import random

import pytest

from loadtests.difficulty import prompt_of
from loadtests.holding import Answered, holding, trailing_share


def stepped(*steps: tuple[int, int]) -> list[Answered]:
    """Ten requests a second: for so many seconds, so many of them by the full tier."""
    answers, at = [], 0
    for num_seconds, num_full in steps:
        for second in range(at, at + num_seconds):
            answers += [Answered(at_s=second + (i + 0.5) / 10, is_full=i < num_full) for i in range(10)]
        at += num_seconds
    return answers


def test_by_hand() -> None:
    """A share of .3, then .8 for ten seconds, then .3: through a window of twenty seconds a single second of .8 is .025
    too much, so it is settled when the last has left."""
    answers = stepped((100, 3), (10, 8), (90, 3))
    assert trailing_share(answers, 110.0, window_s=20) == pytest.approx(0.55)
    told = holding(answers, target=0.3, changed_at_s=100, until_s=200, window_s=20)
    assert told.peak == pytest.approx(0.25)
    assert told.settle_s == 29
    assert told.worst_after == pytest.approx(0.0, abs=1e-9)
    assert told.share == pytest.approx(0.35)
    assert told.is_held


@pytest.mark.parametrize("steps", [((100, 3), (500, 5)), ((100, 3), (400, 3), (200, 8))])
def test_what_strays_is_missed(steps: tuple[tuple[int, int], ...]) -> None:
    """A share that stays away, and one that goes away again after it was back."""
    until = sum(seconds for seconds, _ in steps)
    assert not holding(stepped(*steps), target=0.3, changed_at_s=100, until_s=until).is_held


def test_without_a_change_it_is_settled_at_once() -> None:
    """Nothing was ever beyond the limit."""
    told = holding(stepped((300, 3)), target=0.3, changed_at_s=100, until_s=300)
    assert (told.settle_s, told.is_held) == (0.0, True)


def test_difficulty_is_a_mean_that_can_be_doubled() -> None:
    """Twice the difficulty is twice the tasks, about, and none at 0."""
    rng = random.Random(0)

    def tasks(difficulty: float) -> float:
        prompts = [prompt_of(rng, difficulty=difficulty) for _ in range(2000)]
        return sum(prompt.count(" the ") + prompt.startswith("the ") for prompt in prompts) / 2000

    assert tasks(0.0) == 0
    assert 1.8 < tasks(2.0) / tasks(1.0) < 2.9
