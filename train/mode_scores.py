"""What choosing a mode is worth: scores and tokens of the chosen mode against always `direct` and always `work`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Any

from train.codec import Codec
from train.domains.base import Item, Verdict
from train.evaluate import Answer, Score, ask
from train.modes import Mode, mode_of, opening, read
from train.rollouts.rollout import Sampler
from train.verifiers.pool import Judge


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of greedy answers."""

    score: Score
    mean_tokens: float
    """The mode and the end included, forced or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeScores:
    """Of one domain's level."""

    domain: str
    level: int
    num_items: int
    chosen: Outcome
    direct: Outcome
    work: Outcome
    work_share: float
    """Of the answers in which the policy chose: those that work."""


def score_modes(
    items: Mapping[str, Sequence[Item]],
    *,
    sampler: Sampler,
    codec: Codec,
    pool: Judge,
    max_tokens: Callable[[Item], int],
) -> list[ModeScores]:
    """The same items thrice: with the mode left to the policy, and with each forced on it.

    Args:
        items: of each domain, of any levels.
        sampler: as it is now.
        codec: the policy's.
        pool: judges.
        max_tokens: of an item's answer.
    """
    asked = partial(
        ask,
        num_answers=1,
        temperature=0.0,
        sampler=sampler,
        codec=codec,
        pool=pool,
        max_tokens=max_tokens,
        read=read,
    )
    found = []
    for domain, of_domain in items.items():
        for level in sorted({item.level for item in of_domain}):
            of_level = [item for item in of_domain if item.level == level]
            chosen = asked(of_level)
            forced = {mode: (start := opening(codec, mode), asked(of_level, opening=start)) for mode in Mode}
            said = [mode_of(codec.text(answers[0].span.token_ids)) for answers in chosen]
            found.append(
                ModeScores(
                    domain=domain,
                    level=level,
                    num_items=len(of_level),
                    chosen=_outcome((), chosen),
                    direct=_outcome(*forced[Mode.DIRECT]),
                    work=_outcome(*forced[Mode.WORK]),
                    work_share=fmean(mode is Mode.WORK for mode in said),
                )
            )
    return found


def _outcome(start: Sequence[int], answers: Sequence[Sequence[Answer]]) -> Outcome:
    scores = [of_item[0].verdict.score for of_item in answers]
    return Outcome(
        Score.of(scores), fmean(len(start) + len(of_item[0].span.token_ids) for of_item in answers)
    )


def mode_metrics(texts: Sequence[str], verdicts: Sequence[Sequence[Verdict]]) -> dict[str, Any]:
    """Of a step's rollouts: the share of each mode, and its mean score.

    Args:
        texts: what each rollout said, groups end to end.
        verdicts: on them, by group.
    """
    judged = list(zip(map(mode_of, texts), chain.from_iterable(verdicts), strict=True))
    metrics: dict[str, Any] = {}
    for mode in Mode:
        scores = [verdict.score for said, verdict in judged if said is mode]
        metrics[f"{mode}_share"] = len(scores) / len(judged)
        if scores:
            metrics[f"{mode}_score"] = fmean(scores)
    return metrics
