"""A phase of a run: what it begins with, made from the recipe, and what of that its steps change.

Nothing of it is carried from one phase to the next: the optimiser of reinforcement knows nothing of learning by heart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torch import Tensor

from train.advantages import DomainScale
from train.conflict import ConflictProbe
from train.critic import Critic
from train.curriculum import Curriculum, Draw
from train.domains.base import Verdict
from train.entropy import EntropyBand
from train.learner import Learner, LearnerConfig
from train.learner_state import critic_tensors, learner_tensors, load_critic, load_learner
from train.losses import Clip
from train.parts import Parts
from train.recipe import Recipe
from train.seeds import seed_of


class Phase(StrEnum):
    """Where a run is."""

    SFT = "sft"
    RL = "rl"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class PhaseState:
    """All of a phase that has a state."""

    curriculum: Curriculum
    learner: Learner
    scale: DomainScale | None
    """Of domains' advantages; None leaves them as they are."""
    band: EntropyBand | None
    conflict: ConflictProbe | None
    critic: Critic | None

    def observe(self, draws: Sequence[Draw], verdicts: Sequence[Sequence[Verdict]]) -> None:
        """Let the curriculum know what became of its draws, and which domains go together."""
        for draw, told in zip(draws, verdicts, strict=True):
            judged = [verdict.passed for verdict in told if verdict.error is None]
            self.curriculum.observe(
                draw.domain, draw.level, num_passed=sum(judged), num_failed=len(judged) - sum(judged)
            )
        if self.conflict is not None:
            self.curriculum.transfer.update(self.conflict.transfer())

    def tensors(self, parts: Parts) -> dict[str, Tensor]:
        """For a checkpoint, with the weights that move."""
        tensors = learner_tensors(parts.model, self.learner.optimizer)
        return tensors if self.critic is None else tensors | critic_tensors(self.critic)

    def plain(self) -> dict[str, Any]:
        """For a checkpoint, beside `tensors`."""
        return {
            "learner_steps": self.learner.num_steps_done,
            "curriculum": self.curriculum.plain(),
            "scale": None if self.scale is None else self.scale.plain(),
            "entropy": None if self.band is None else self.band.plain(),
            "conflict": None if self.conflict is None else self.conflict.plain(),
            "critic": None if self.critic is None else self.critic.plain(),
        }

    def restore(self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], parts: Parts) -> None:
        """From a checkpoint of the same phase."""
        self.learner.num_steps_done = plain["learner_steps"]
        self.curriculum.restore(plain["curriculum"])
        if self.scale is not None:
            self.scale.restore(plain["scale"])
        if self.band is not None:
            self.band.restore(plain["entropy"])
        if self.conflict is not None:
            self.conflict.restore(plain["conflict"])
        if self.critic is not None:
            self.critic.restore(plain["critic"])
            load_critic(tensors, self.critic)
        load_learner(tensors, parts.model, self.learner.optimizer)


def begun(phase: Phase, recipe: Recipe, parts: Parts) -> PhaseState:
    """What a phase starts with; from the beginning of reinforcement the policy is held to the weights of then."""
    is_rl, rl = phase is Phase.RL, recipe.rl
    band = EntropyBand(low=rl.entropy_band[0], high=rl.entropy_band[1]) if rl.entropy_band and is_rl else None
    conflict = _conflict_probe(recipe) if is_rl else None
    critic = _critic(recipe, parts) if is_rl else None
    if rl.reference_weight and is_rl:
        parts.model.keep_reference()
    return PhaseState(
        curriculum=Curriculum(
            {domain.name: domain.levels for domain in recipe.domains},
            weights={domain.name: domain.weight for domain in recipe.domains},
            kind=rl.curriculum if is_rl else "uniform",
            seed=seed_of(recipe.seed, phase.value),
        ),
        learner=parts.make_learner(
            parts.model,
            _learner_config(phase, recipe),
            entropy_band=band,
            reference=parts.model.reference,
            conflict=conflict,
        ),
        scale=DomainScale() if rl.is_scaled_by_domain else None,
        band=band,
        conflict=conflict,
        critic=critic,
    )


def _conflict_probe(recipe: Recipe) -> ConflictProbe | None:
    node = recipe.rl.conflict
    if not (node.is_measured or node.is_projected):
        return None
    return ConflictProbe(threshold=node.cosine, is_projected=node.is_projected, seed=recipe.seed)


def _critic(recipe: Recipe, parts: Parts) -> Critic | None:
    if recipe.rl.critic is None:
        return None
    return parts.make_critic(
        parts.model,
        recipe.rl.critic,
        micro_batch_tokens=recipe.micro_batch_tokens,
        seed=seed_of(recipe.seed, "critic"),
    )


def _learner_config(phase: Phase, recipe: Recipe) -> LearnerConfig:
    rl, is_rl = recipe.rl, phase is Phase.RL
    node = rl if is_rl else recipe.sft
    # steps in which the critic learns alone, and the policy stays as it is
    num_alone = rl.critic.num_warmup_steps if rl.critic is not None and is_rl else 0
    return LearnerConfig(
        objective=rl.objective,
        clip=Clip(low=rl.clip_low, high=rl.clip_high),
        learning_rate=node.learning_rate,
        num_warmup_steps=node.num_warmup_steps,
        num_steps=node.num_steps - num_alone,
        reference_weight=rl.reference_weight if is_rl else 0.0,
        micro_batch_tokens=recipe.micro_batch_tokens,
        max_tokens=max(domain.max_answer_tokens or 64 for domain in recipe.domains),
        ce_weight=recipe.replay.rl_weight if recipe.replay is not None and is_rl else 1.0,
    )
