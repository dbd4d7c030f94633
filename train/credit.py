"""From verdicts to credits: what each rollout of a group is worth to the learner."""

from __future__ import annotations

from collections.abc import Sequence

from train.advantages import DomainScale, centred
from train.batch import Credit, Group
from train.domains.base import Item, Verdict
from train.rollouts.rollout import Rollout, Span, StopReason


def reinforced(
    item: Item, rollouts: Sequence[Rollout], verdicts: Sequence[Verdict], scale: DomainScale | None
) -> Group:
    """The group with an advantage for every sampled token of a rollout: its score less the group's mean.

    A rollout without a verdict, or cut off by a deadline, is no evidence: it is left out before the mean is taken.
    """
    judged = [
        (rollout, verdict)
        for rollout, verdict in zip(rollouts, verdicts, strict=True)
        if verdict.error is None and rollout.stop is not StopReason.DEADLINE
    ]
    if not judged:
        return Group(item.domain, rollouts[0].spans[0].token_ids, ())
    advantages = centred([verdict.score for _, verdict in judged])
    if scale is not None:
        advantages = scale.scaled(item.domain, advantages)
    credits = tuple(
        _with_advantage(rollout, float(advantage), verdict.score)
        for (rollout, verdict), advantage in zip(judged, advantages, strict=True)
    )
    return Group(item.domain, judged[0][0].spans[0].token_ids, credits)


def by_heart(domain: str, prompt: Sequence[int], answer: Sequence[int], weight: float = 1.0) -> Group:
    """One answer to be learned by heart, its end included."""
    rollout = Rollout((Span(tuple(prompt)), Span(tuple(answer))), StopReason.END)
    num = len(answer)
    return Group(domain, tuple(prompt), (Credit(rollout, (0.0,) * num, (weight,) * num),))


def _with_advantage(rollout: Rollout, advantage: float, reward: float) -> Credit:
    tokens = [span.is_sampled for span in rollout.spans[1:] for _ in span.token_ids]
    advantages = tuple(advantage * is_sampled for is_sampled in tokens)
    return Credit(rollout, advantages, (0.0,) * len(tokens), reward)
