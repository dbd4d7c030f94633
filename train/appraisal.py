"""Which tokens of a step's groups a critic appraises, and how their advantages come back into the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from train.advantages import DomainScale, Floats
from train.batch import Credit, Group


def is_appraised(credit: Credit) -> bool:
    """Whether the rollout was judged, and the policy chose any of it."""
    return credit.reward is not None and any(credit.is_sampled)


def marked(groups: Sequence[Group]) -> list[Group]:
    """What is appraised alone, with an advantage at every sampled token, so that no micro-batch leaves any out."""
    return [
        replace(
            group,
            credits=tuple(
                replace(credit, advantages=tuple(map(float, credit.is_sampled)))
                for credit in group.credits
                if is_appraised(credit)
            ),
        )
        for group in groups
    ]


def by_rollout(values: Floats, credits: Sequence[Credit]) -> list[Floats]:
    """Values of sampled tokens, end to end → of each rollout."""
    return np.split(values, np.cumsum([credit.rollout.num_sampled for credit in credits])[:-1])


def with_advantages(
    groups: Sequence[Group], advantages: Sequence[Floats], scale: DomainScale | None
) -> tuple[Group, ...]:
    """The groups with these, which are of the sampled tokens of each appraised rollout, scaled by domain."""
    given = iter(advantages)
    return tuple(replace(group, credits=tuple(_credits(group, given, scale))) for group in groups)


def _credits(group: Group, given: Iterator[Floats], scale: DomainScale | None) -> Iterator[Credit]:
    mine = [next(given) for credit in group.credits if is_appraised(credit)]
    if scale is not None and mine:
        scaled = scale.scaled(group.domain, np.concatenate(mine))
        mine = np.split(scaled, np.cumsum([len(each) for each in mine])[:-1])
    of_group = iter(mine)
    for credit in group.credits:
        yield _with(credit, next(of_group)) if is_appraised(credit) else credit


def _with(credit: Credit, advantages: Floats) -> Credit:
    sampled = iter(advantages.tolist())
    placed = tuple(next(sampled) if is_sampled else 0.0 for is_sampled in credit.is_sampled)
    return replace(credit, advantages=placed)
