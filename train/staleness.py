"""Rollouts of weights that are too old are not learned from: a bound, counted in policy versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from train.batch import Credit, Group


@dataclass(frozen=True, slots=True)
class Fresh:
    """What is young enough."""

    groups: tuple[Group, ...]
    num_refused: int
    """Rollouts."""
    staleness: int
    """Versions between the policy and the oldest rollout, the refused ones included."""


def staleness_of(credit: Credit, policy_version: int) -> int:
    """Versions since the oldest of its sampled tokens was drawn; 0 for what nobody sampled."""
    versions = [
        span.policy_version
        for span in credit.rollout.spans
        if span.is_sampled and span.policy_version is not None
    ]
    return policy_version - min(versions, default=policy_version)


def fresh(groups: Iterable[Group], policy_version: int, max_staleness: int) -> Fresh:
    """The groups without rollouts that are more than `max_staleness` versions old.

    Advantages stay as they are: they were taken against all rollouts of the group, which is a baseline still.
    """
    kept, num_refused, oldest = [], 0, 0
    for group in groups:
        ages = [staleness_of(credit, policy_version) for credit in group.credits]
        oldest = max(oldest, *ages, 0)
        credits = tuple(
            credit for credit, age in zip(group.credits, ages, strict=True) if age <= max_staleness
        )
        num_refused += len(ages) - len(credits)
        if credits:
            kept.append(replace(group, credits=credits))
    return Fresh(tuple(kept), num_refused, oldest)
