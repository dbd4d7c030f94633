"""Rollouts of weights that are too old teach nothing."""

from __future__ import annotations

from train.batch import Credit, Group
from train.rollouts.rollout import Rollout, Span, StopReason
from train.staleness import fresh


def credit(*versions: int | None) -> Credit:
    spans = tuple(Span((1,), None if version is None else (-1.0,), version) for version in versions)
    rollout = Rollout((Span((0,)), *spans), StopReason.END)
    return Credit(rollout, (1.0,) * len(spans), (0.0,) * len(spans))


def test_older_than_the_bound_is_refused() -> None:
    """The oldest sampled span counts, given spans have no age, and a group without rollouts goes."""
    mixed = Group("d", (0,), (credit(5), credit(3), credit(5, None, 3)))
    old = Group("d", (0,), (credit(2),))
    heart = Group("d", (0,), (credit(None),))
    found = fresh([mixed, old, heart], policy_version=5, max_staleness=1)
    assert [len(group.credits) for group in found.groups] == [1, 1]
    assert (found.num_refused, found.staleness) == (3, 3)
    assert fresh([mixed, old, heart], policy_version=5, max_staleness=3).num_refused == 0
