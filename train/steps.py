"""The story of a step, by heart and of reinforcement.

A step of reinforcement reads from top to bottom in `Steps._reinforce`: collect rollouts (`train.collector`), learn from
those that are young enough, as the critic sees them where there is one (`train.learner`), and let the curriculum know
what came of it.

What a step leaves behind is the phase's state, the rollouts that wait, and two counters: all of it in a checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from torch import Tensor

from train.batch import Group
from train.collector import Collected, Collector
from train.critic import Critic
from train.demonstrations import demonstrations
from train.learner import StepReport
from train.parts import Parts
from train.pending import collected_of, plain_collected
from train.phase import Phase, begun
from train.recipe import Recipe
from train.replay import Replay
from train.stages import Stages
from train.staleness import fresh

MAX_QUARANTINED: Final = 5
"""Steps in a row whose gradient was not finite, after which a run gives up rather than go on doing nothing."""


class TrainingError(Exception):
    """A run cannot go on; the message says why."""


class Steps:
    """Takes steps; made before any weight has moved, for the words of the base are drawn then (`train.replay`).

    Args:
        recipe: of the run.
        parts: of the run.
        is_stopping: asked between a step's rollouts and what is learned from them.
    """

    def __init__(self, recipe: Recipe, parts: Parts, is_stopping: Callable[[], bool]) -> None:
        self._recipe = recipe
        self._parts = parts
        self._is_stopping = is_stopping
        levels = {domain.name: domain.levels for domain in recipe.domains}
        self._replay = (
            Replay(recipe.replay, parts.codec, parts.sampler, recipe.seed)
            if recipe.replay is not None
            else None
        )
        self._stages = Stages(recipe.context, levels, parts) if recipe.context is not None else None
        self._num_quarantined = 0
        self.policy_version = 0
        """Steps that have moved the weights."""
        self.pending: Collected | None = None
        """Rollouts that nothing has been learned from yet."""
        self.begin(Phase.SFT)

    def begin(self, phase: Phase) -> None:
        """Set up what a phase starts with."""
        self._phase = phase
        if self._stages is not None:
            self._stages.enter(0 if phase is Phase.SFT else "last")
        self._state = begun(phase, self._recipe, self._parts)
        # a critic's advantages are scaled where it appraises
        scale = self._state.scale if self._state.critic is None else None
        self._collector = Collector(self._recipe, self._parts, self._state.curriculum, scale)

    def take(self, number: int) -> dict[str, Any] | None:
        """The phase's step of this number, counted from 0, and its metrics; None where it was told to stop with the
        rollouts at hand.

        Raises:
            TrainingError: gradients are not finite any more, or rollouts too old.
        """
        return self._learn_by_heart(number) if self._phase is Phase.SFT else self._reinforce(number)

    def _learn_by_heart(self, number: int) -> dict[str, Any]:
        context: dict[str, Any] = {}
        if self._stages is not None:
            self._state.curriculum.allow(self._stages.enter(number))
            context["context_tokens"] = self._stages.max_tokens_at(number)
        items = self._collector.items(self._state.curriculum.plan(number, self._recipe.sft.items_per_step))
        groups = demonstrations(items, self._parts, has_modes=self._recipe.modes is not None)
        return {**self._step([*groups, *self._replayed(number, len(items))]), **context}

    def _reinforce(self, number: int) -> dict[str, Any] | None:
        if self.pending is None:
            self.pending = self._collect(number)
            if self._is_stopping():
                return None
        collected, self.pending = self.pending, None
        began = time.perf_counter()
        metrics = self._learn(number, collected)
        self._state.observe(collected.draws, collected.verdicts)
        if self._state.conflict is not None:
            metrics["cosines"] = self._state.conflict.matrix()
        return {**collected.metrics, **metrics, "learn_seconds": time.perf_counter() - began}

    def _collect(self, number: int) -> Collected:
        rl = self._recipe.rl
        if rl.reference_weight and rl.reference_reset_steps and number % rl.reference_reset_steps == 0:
            self._parts.model.keep_reference()
        self._parts.sampler.update(self.policy_version)
        return self._collector.collect(number)

    def _learn(self, number: int, collected: Collected) -> dict[str, Any]:
        most = self._recipe.rl.max_staleness
        found = fresh(collected.groups, self.policy_version, most)
        if found.num_refused and not found.groups:
            raise TrainingError(
                f"all rollouts are {found.staleness} policy versions old and rl.max_staleness is {most}; "
                "see that new weights reach the sampler, or raise the bound"
            )
        replayed = self._replayed(number, len(collected.draws))
        critic = self._state.critic
        metrics = (
            self._step([*found.groups, *replayed])
            if critic is None
            else self._step_with(critic, found.groups, replayed)
        )
        return {**metrics, "num_stale": found.num_refused, "staleness": found.staleness}

    def _step_with(
        self, critic: Critic, groups: Sequence[Group], replayed: Sequence[Group]
    ) -> dict[str, Any]:
        """As the critic sees the groups; while it learns alone the policy stays as it is."""
        appraised = critic.step(groups, self._state.scale)
        if appraised.is_warming_up:
            return dict(appraised.metrics)
        return {**self._step([*appraised.groups, *replayed]), **appraised.metrics}

    def _step(self, groups: Sequence[Group]) -> dict[str, Any]:
        """Move the weights once."""
        report = self._state.learner.step(groups)
        if report.is_applied:
            self.policy_version += 1
            self._num_quarantined = 0
        else:
            self._num_quarantined += 1
            if self._num_quarantined >= MAX_QUARANTINED:
                raise TrainingError(
                    f"the gradients of {MAX_QUARANTINED} steps in a row were not finite; the last checkpoint is good: "
                    "resume from it with a lower learning rate"
                )
        return _metrics_of(report)

    def _replayed(self, number: int, num_prompts: int) -> Sequence[Group]:
        return () if self._replay is None else self._replay.groups(self._phase, number, num_prompts)

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return self._state.tensors(self._parts)

    def plain(self) -> dict[str, Any]:
        """For a checkpoint, beside `tensors`."""
        return {
            "policy_version": self.policy_version,
            "num_quarantined": self._num_quarantined,
            "pending": None if self.pending is None else plain_collected(self.pending),
            **self._state.plain(),
        }

    def restore(self, phase: Phase, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """From a checkpoint of this phase. One of a run that is done brings its weights, and takes no step."""
        if phase is not Phase.DONE:
            self.begin(phase)
        self.policy_version, self._num_quarantined = plain["policy_version"], plain["num_quarantined"]
        self.pending = None if plain["pending"] is None else collected_of(plain["pending"])
        self._state.restore(plain, tensors, self._parts)
        self._parts.sampler.update(self.policy_version)


def _metrics_of(report: StepReport) -> dict[str, Any]:
    return {
        **{f"{name}_loss": value for name, value in report.losses.items()},
        "is_applied": report.is_applied,
        "grad_norm": report.grad_norm,
        "learning_rate": report.learning_rate,
        "entropy": report.entropy,
        "mean_ratio": report.mean_ratio,
        "max_ratio": report.max_ratio,
        "clipped_share": report.clipped_share,
        "num_rejected": report.num_rejected,
        "num_projected": report.num_projected,
        "num_tokens": report.num_tokens,
    }
