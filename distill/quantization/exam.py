"""Held-out items that the unquantised model and the quantised ones answer greedily, and what they keep of its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from distill.paired import Kept, Pair, kept
from train.codec import Codec
from train.domains.audit import audited
from train.evaluate import Answer, Evaluation, evaluate, held_out
from train.model.linear import FloatLinear, LinearMap
from train.model.llama import Llama
from train.recipe import DomainSettings
from train.rollouts.in_process import InProcessSampler
from train.verifiers.pool import Judge


@dataclass(frozen=True, slots=True)
class Sat:
    """An exam that a model sat."""

    evaluation: Evaluation
    by_item: Mapping[str, tuple[float, ...]]
    """Domain → each item's score, in the items' order."""

    def kept_of(self, whole: Sat, *, seed: int) -> Kept:
        """Of another model's scores in the same exam."""
        return kept(
            {name: Pair(scores, whole.by_item[name]) for name, scores in self.by_item.items()}, seed=seed
        )


@dataclass(frozen=True, slots=True)
class Exam:
    """The items of every evaluation (`train.evaluate.held_out`)."""

    domains: Sequence[DomainSettings]
    """Audited ones, each with the levels that are asked and how long answers may be."""
    num_items: int
    """Of each domain."""
    codec: Codec
    pool: Judge

    def sit(self, model: Llama, make_linear: Callable[[Tensor], LinearMap] = FloatLinear) -> Sat:
        """Ask a model, its linear maps computed as `make_linear` has it."""
        levels = {each.name: each.levels for each in self.domains}
        limits = {each.name: each.max_answer_tokens for each in self.domains}
        domains = {each.name: each for each in audited(levels)}
        by_item: dict[str, tuple[float, ...]] = {}

        def on_answers(answers: Sequence[Answer]) -> None:
            by_item[answers[0].item.domain] = tuple(answer.verdict.score for answer in answers)

        evaluation = evaluate(
            {name: held_out(domains[name], levels[name], self.num_items) for name in levels},
            domains=domains,
            sampler=InProcessSampler(model, make_linear=make_linear),
            codec=self.codec,
            pool=self.pool,
            max_tokens=lambda item: limits[item.domain] or item.max_answer_tokens,
            on_answers=on_answers,
        )
        return Sat(evaluation, by_item)
