"""What models are asked to be held against each other, and what their answers score.

The items are those of every evaluation (`train.evaluate.held_out`), so that figures here and there are of one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from train.codec import Codec
from train.domains.audit import audited
from train.domains.base import Item
from train.evaluate import Answer, Evaluation, evaluate, held_out
from train.recipe import DomainSettings
from train.rollouts.rollout import Sampler
from train.verifiers.pool import Judge

MIN_ITEMS: Final = 2
"""Of a domain: one item has no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What both are asked."""

    domains: Sequence[DomainSettings]
    num_items: int = 32
    """Of each domain."""
    num_samples: int = 0
    """At temperature 1, beside the greedy answer; where any are drawn, they are what is compared."""
    num_drafts: int = 0
    """Places of a round that acceptance is measured at; 0: not at all."""
    seed: int = 0
    """Of the bootstrap."""


def scored(
    sampler: Sampler, codec: Codec, questions: Questions, pool: Judge
) -> tuple[Evaluation, dict[str, tuple[float, ...]]]:
    """The evaluation, and by domain each item's score: its samples' mean where any were drawn.

    Raises:
        UnauditedError: a domain has not passed its audit.
        EngineError, MissingLogprobsError: as the sampler.
    """
    levels = {domain.name: domain.levels for domain in questions.domains}
    limits = {domain.name: domain.max_answer_tokens for domain in questions.domains}
    domains = {domain.name: domain for domain in audited(levels)}
    by_item: dict[str, tuple[float, ...]] = {}

    def on_answers(answers: Sequence[Answer]) -> None:
        by_item[answers[0].item.domain] = tuple(answer.verdict.score for answer in answers)

    def on_samples(rows: Sequence[Sequence[Answer]]) -> None:
        by_item[rows[0][0].item.domain] = tuple(fmean(each.verdict.score for each in row) for row in rows)

    def max_tokens(item: Item) -> int:
        return limits[item.domain] or item.max_answer_tokens

    evaluation = evaluate(
        {name: held_out(domains[name], levels[name], questions.num_items) for name in levels},
        domains=domains,
        sampler=sampler,
        codec=codec,
        pool=pool,
        max_tokens=max_tokens,
        num_samples=questions.num_samples,
        on_answers=on_answers,
        on_samples=on_samples,
    )
    return evaluation, by_item
