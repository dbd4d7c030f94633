"""What is read off a search."""

from __future__ import annotations

from loadtests.tuning.figures import Figures, Objective, Round
from loadtests.tuning.findings import Findings, Trial, front, points

BASE = Figures(alone_tokens_per_s=100, streams_tokens_per_s=200, first_token_s=0.4)


def measured(alone: float, streams: float, first_token: float) -> list[Round]:
    candidate = Figures(
        alone_tokens_per_s=100 * alone, streams_tokens_per_s=200 * streams, first_token_s=0.4 / first_token
    )
    return [Round(reference=BASE, candidate=candidate)]


def test_better_is_more_than_one() -> None:
    """Also of seconds, of which fewer are better."""
    (found,) = measured(1.5, 0.5, 2.0)
    assert [round(found.ratio(each), 9) for each in Objective] == [1.5, 0.5, 2.0]


def test_points_and_their_front() -> None:
    """A later candidate is carried over to the default; who is worse in something and better in nothing is left out."""
    found = Findings(
        trials=[
            Trial(setting={"a": 1}, against={}, rounds=measured(1.2, 1.0, 1.0)),
            Trial(setting={"b": 1}, against={}, rounds=measured(1.0, 1.0, 1.0)),
            Trial(setting={"a": 1, "b": 2}, against={"a": 1}, rounds=measured(0.5, 2.0, 1.0)),
            Trial(setting={"a": 1, "b": 3}, against={"a": 1}, rounds=measured(0.9, 1.0, 1.005)),
            Trial(setting={"a": 1, "b": 4}, against={"a": 1}, rounds=measured(9, 9, 9), keeps_answers=False),
            Trial(setting={"a": 1, "b": 5}, against={"a": 1}),
        ]
    )
    placed = points(found)
    assert [each.setting for each in placed] == [each.setting for each in found.trials[:5]]
    assert round(placed[2].ratios[Objective.ALONE], 9) == 0.6
    assert [each.setting for each in front(placed)] == [{"a": 1}, {"a": 1, "b": 2}]
