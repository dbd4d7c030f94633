"""Held-out items that the unquantised model and the quantised ones answer greedily, and what they keep of its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from distill.paired import Kept, Pair, kept
from distill.questions import Questions, scored
from train.codec import Codec
from train.evaluate import Evaluation
from train.model.linear import FloatLinear, LinearMap
from train.model.llama import Llama
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
    """What `tierwise distill evaluate` would ask."""

    questions: Questions
    codec: Codec
    pool: Judge

    def sit(self, model: Llama, make_linear: Callable[[Tensor], LinearMap] = FloatLinear) -> Sat:
        """Ask a model, its linear maps computed as `make_linear` has it."""
        sampler = InProcessSampler(model, make_linear=make_linear)
        return Sat(*scored(sampler, self.codec, self.questions, self.pool))
