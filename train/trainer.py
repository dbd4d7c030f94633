"""The story of a run: learn by heart, then reinforce; evaluate around each; survive being stopped anywhere.

One step of reinforcement reads from top to bottom in `Trainer._reinforce`: collect, learn, observe.
What a run is at any border between steps is in its checkpoint, and nothing else: every draw is a function of the seed
and the draw's name, so a run that was interrupted goes on to the same weights, bit for bit on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from train import modes
from train.advantages import DomainScale
from train.batch import Group
from train.checkpointing import Checkpoint
from train.collector import Collected, Collector
from train.conflict import ConflictProbe
from train.critic import Critic
from train.curriculum import Curriculum, Draw
from train.demonstrations import demonstrations
from train.domains.base import Item, Verdict
from train.entropy import EntropyBand
from train.evaluate import Answer, Evaluation, evaluate, held_out
from train.learner import LearnerConfig, StepReport
from train.learner_state import critic_tensors, learner_tensors, load_critic, load_learner
from train.losses import Clip
from train.mode_scores import ModeScores, score_modes
from train.parts import Parts
from train.pending import collected_of, plain_collected
from train.recipe import Recipe
from train.replay import Replay
from train.rollouts.rollout import Sampler
from train.run_directory import Run
from train.seeds import seed_of
from train.shown_answers import shown_answers
from train.stages import Stages
from train.staleness import fresh
from train.transcript import answered

MAX_QUARANTINED: Final = 5
"""Steps in a row whose gradient was not finite, after which a run gives up rather than go on doing nothing."""


class Phase(StrEnum):
    """Where a run is."""

    SFT = "sft"
    RL = "rl"
    DONE = "done"


class TrainingError(Exception):
    """A run cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, for whoever watches."""

    phase: Phase
    number: int
    num_steps: int
    metrics: Mapping[str, Any]


class Trainer:
    """Runs a recipe.

    Args:
        recipe: what to do.
        parts: with what.
        run: where it is kept.
        on_step: told of every step.
        is_stopping: asked at every border: between steps, and between a step's rollouts and what is learned from them;
            once true, the run is saved, rollouts that wait included, and `run` returns.
    """

    def __init__(
        self,
        recipe: Recipe,
        parts: Parts,
        run: Run,
        *,
        on_step: Callable[[Step], None] = lambda _: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._recipe = recipe
        self._parts = parts
        self._run = run
        self._on_step = on_step
        self._is_stopping = is_stopping
        self._levels = {domain.name: domain.levels for domain in recipe.domains}
        self._replay = (
            Replay(recipe.replay, parts.codec, parts.sampler, recipe.seed)
            if recipe.replay is not None
            else None
        )
        self._stages = Stages(recipe.context, self._levels, parts) if recipe.context is not None else None
        self._begin(Phase.SFT)
        self.num_done = {Phase.SFT: 0, Phase.RL: 0}
        self._num_quarantined = 0
        self._policy_version = 0
        self._pending: Collected | None = None

    def run(self, *, is_resumed: bool = False) -> bool:
        """Go to the end, or to where the run is told to stop; whether it came to the end.

        Raises:
            TrainingError: gradients are not finite any more.
        """
        if is_resumed:
            self._resume()
        if not self._run.num_lines:
            self._evaluate("before")
        while self.phase is not Phase.DONE:
            if self._is_stopping():
                self.save()
                return False
            self._step()
        return True

    def _begin(self, phase: Phase) -> None:
        """Set up what a phase starts with; its optimiser knows nothing of the one before."""
        recipe, self.phase = self._recipe, phase
        if self._stages is not None:
            self._stages.enter(0 if phase is Phase.SFT else "last")
        rl = recipe.rl
        node = recipe.sft if phase is Phase.SFT else rl
        conflict = rl.conflict
        self._band = (
            EntropyBand(low=rl.entropy_band[0], high=rl.entropy_band[1])
            if rl.entropy_band and phase is Phase.RL
            else None
        )
        self.conflict = (
            ConflictProbe(threshold=conflict.cosine, is_projected=conflict.is_projected, seed=recipe.seed)
            if phase is Phase.RL and (conflict.is_measured or conflict.is_projected)
            else None
        )
        self.curriculum = Curriculum(
            self._levels,
            weights={domain.name: domain.weight for domain in recipe.domains},
            kind=rl.curriculum if phase is Phase.RL else "uniform",
            seed=seed_of(recipe.seed, phase.value),
        )
        self._scale = DomainScale() if rl.is_scaled_by_domain else None
        self.critic = (
            self._parts.make_critic(
                self._parts.model,
                rl.critic,
                micro_batch_tokens=recipe.micro_batch_tokens,
                seed=seed_of(recipe.seed, "critic"),
            )
            if rl.critic is not None and phase is Phase.RL
            else None
        )
        self._collector = Collector(
            recipe, self._parts, self.curriculum, self._scale if self.critic is None else None
        )
        if rl.reference_weight and phase is Phase.RL:
            self._parts.model.keep_reference()
        self.learner = self._parts.make_learner(
            self._parts.model,
            LearnerConfig(
                objective=rl.objective,
                clip=Clip(low=rl.clip_low, high=rl.clip_high),
                learning_rate=node.learning_rate,
                num_warmup_steps=node.num_warmup_steps,
                num_steps=node.num_steps - (rl.critic.num_warmup_steps if self.critic and rl.critic else 0),
                reference_weight=rl.reference_weight if phase is Phase.RL else 0.0,
                micro_batch_tokens=recipe.micro_batch_tokens,
                max_tokens=max(domain.max_answer_tokens or 64 for domain in recipe.domains),
                ce_weight=recipe.replay.rl_weight if recipe.replay is not None and phase is Phase.RL else 1.0,
            ),
            entropy_band=self._band,
            reference=self._parts.model.reference,
            conflict=self.conflict,
        )

    def _step(self) -> None:
        """One step of the phase, or the border to the next phase."""
        node = self._recipe.sft if self.phase is Phase.SFT else self._recipe.rl
        number = self.num_done[self.phase]
        if number >= node.num_steps:
            return self._next_phase()
        began = time.perf_counter()
        metrics = self._learn_by_heart(number) if self.phase is Phase.SFT else self._reinforce(number)
        if metrics is None:  # told to stop; the rollouts wait
            return None
        metrics["seconds"] = time.perf_counter() - began
        self.num_done[self.phase] += 1
        self._run.record(self.phase, self.num_done[self.phase], metrics)
        self._on_step(Step(self.phase, self.num_done[self.phase], node.num_steps, metrics))
        every = self._recipe.evaluation.every_steps
        if self.phase is Phase.RL and every and self.num_done[Phase.RL] % every == 0:
            self._evaluate("during")
        if self.num_done[self.phase] % self._recipe.checkpoint_every_steps == 0:
            self.save()
        return None

    def _next_phase(self) -> None:
        if self.num_done[self.phase]:
            self._evaluate(f"after_{self.phase}")
        phase = Phase.RL if self.phase is Phase.SFT else Phase.DONE
        if phase is not Phase.DONE:
            self._begin(phase)
        self.phase = phase
        self.save()

    def _learn_by_heart(self, number: int) -> dict[str, Any]:
        context: dict[str, Any] = {}
        if self._stages is not None:
            self.curriculum.allow(self._stages.enter(number))
            context["context_tokens"] = self._stages.max_tokens_at(number)
        items = self._collector.items(self.curriculum.plan(number, self._recipe.sft.items_per_step))
        groups = demonstrations(items, self._parts, has_modes=self._recipe.modes is not None)
        learned = self._learned(self.learner.step([*groups, *self._replayed(number, len(items))]))
        return {**learned, **context}

    def _replayed(self, number: int, num_prompts: int) -> Sequence[Group]:
        return () if self._replay is None else self._replay.groups(self.phase, number, num_prompts)

    def _reinforce(self, number: int) -> dict[str, Any] | None:
        """A step; None where it was told to stop with the rollouts at hand."""
        if self._pending is None:
            self._pending = self._collect(number)
            if self._is_stopping():
                return None
        collected, self._pending = self._pending, None
        began = time.perf_counter()
        metrics = self._learn(collected)
        self._observe(collected.draws, collected.verdicts)
        if self.conflict is not None:
            metrics["cosines"] = self.conflict.matrix()
        return {**collected.metrics, **metrics, "learn_seconds": time.perf_counter() - began}

    def _collect(self, number: int) -> Collected:
        rl = self._recipe.rl
        if rl.reference_weight and rl.reference_reset_steps and number % rl.reference_reset_steps == 0:
            self._parts.model.keep_reference()
        self._parts.sampler.update(self._policy_version)
        return self._collector.collect(number)

    def _learn(self, collected: Collected) -> dict[str, Any]:
        most = self._recipe.rl.max_staleness
        found = fresh(collected.groups, self._policy_version, most)
        if found.num_refused and not found.groups:
            raise TrainingError(
                f"all rollouts are {found.staleness} policy versions old and rl.max_staleness is {most}; "
                "see that new weights reach the sampler, or raise the bound"
            )
        replayed = self._replayed(self.num_done[Phase.RL], len(collected.draws))
        if self.critic is None:
            metrics = self._learned(self.learner.step([*found.groups, *replayed]))
        else:
            metrics = self._learn_with(self.critic, found.groups, replayed)
        return {**metrics, "num_stale": found.num_refused, "staleness": found.staleness}

    def _learn_with(
        self, critic: Critic, groups: Sequence[Group], replayed: Sequence[Group]
    ) -> dict[str, Any]:
        """As the critic sees the groups; while it learns alone the policy stays as it is."""
        appraised = critic.step(groups, self._scale)
        if appraised.is_warming_up:
            return dict(appraised.metrics)
        learned = self._learned(self.learner.step([*appraised.groups, *replayed]))
        return {**learned, **appraised.metrics}

    def _observe(self, draws: Sequence[Draw], verdicts: Sequence[Sequence[Verdict]]) -> None:
        for draw, told in zip(draws, verdicts, strict=True):
            judged = [verdict.passed for verdict in told if verdict.error is None]
            self.curriculum.observe(
                draw.domain, draw.level, num_passed=sum(judged), num_failed=len(judged) - sum(judged)
            )
        if self.conflict is not None:
            self.curriculum.transfer.update(self.conflict.transfer())

    def _learned(self, report: StepReport) -> dict[str, Any]:
        if report.is_applied:
            self._policy_version += 1
            self._num_quarantined = 0
        else:
            self._num_quarantined += 1
            if self._num_quarantined >= MAX_QUARANTINED:
                raise TrainingError(
                    f"the gradients of {MAX_QUARANTINED} steps in a row were not finite; the last checkpoint is good: "
                    "resume from it with a lower learning rate"
                )
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

    def _held_out(self) -> dict[str, list[Item]]:
        num = self._recipe.evaluation.num_items
        return {
            name: held_out(self._parts.domains[name], levels, num) for name, levels in self._levels.items()
        }

    def evaluation(self, on_answers: Callable[[Sequence[Answer]], None] = lambda _: None) -> Evaluation:
        """What the policy can do now; `on_answers` is told each domain's greedy answers."""
        node, parts = self._recipe.evaluation, self._parts
        return evaluate(
            self._held_out(),
            domains=parts.domains,
            sampler=self.evaluator(),
            codec=parts.codec,
            pool=parts.pool,
            max_tokens=self._collector.max_answer_tokens,
            num_samples=node.num_samples,
            read=answered if self._recipe.modes is None else modes.read,
            on_answers=on_answers,
        )

    def evaluator(self) -> Sampler:
        """What evaluations draw from (`evaluation.sampler`), of the weights as they are now."""
        return self._parts.evaluator(self._policy_version)

    def max_answer_tokens(self, item: Item) -> int:
        """What an answer to it may take."""
        return self._collector.max_answer_tokens(item)

    def mode_scores(self) -> list[ModeScores]:
        """What each mode is worth now, by domain and level."""
        parts = self._parts
        return score_modes(
            self._held_out(),
            sampler=self.evaluator(),
            codec=parts.codec,
            pool=parts.pool,
            max_tokens=self._collector.max_answer_tokens,
        )

    def _evaluate(self, when: str) -> None:
        shown: list[dict[str, Any]] = []
        found = self.evaluation(lambda answers: shown.extend(shown_answers(answers, self._parts.codec.text)))
        metrics: dict[str, Any] = {
            "when": when,
            "phase_steps": self.num_done.get(self.phase, 0),
            "greedy": found.greedy.mean,
            "evaluation": found.plain(),
        }
        if found.sampled is not None:
            metrics["sampled"] = found.sampled.mean
        if self._recipe.modes is not None:
            metrics["modes"] = [asdict(score) for score in self.mode_scores()]
        number = sum(self.num_done.values())
        self._run.keep_answers({"when": when, "step": number, "answers": shown})
        self._run.record("evaluation", number, metrics)
        self._on_step(Step(self.phase, number, number, metrics))

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        tensors = learner_tensors(self._parts.model, self.learner.optimizer)
        if self.critic is not None:
            tensors |= critic_tensors(self.critic)
        self._run.save(Checkpoint(sum(self.num_done.values()), tensors, self._state()))

    def _state(self) -> dict[str, Any]:
        return {
            "phase": self.phase.value,
            "num_done": {phase.value: num for phase, num in self.num_done.items()},
            "num_lines": self._run.num_lines,
            "policy_version": self._policy_version,
            "num_quarantined": self._num_quarantined,
            "learner_steps": self.learner.num_steps_done,
            "pending": None if self._pending is None else plain_collected(self._pending),
            "curriculum": self.curriculum.plain(),
            "scale": None if self._scale is None else self._scale.plain(),
            "entropy": None if self._band is None else self._band.plain(),
            "conflict": None if self.conflict is None else self.conflict.plain(),
            "critic": None if self.critic is None else self.critic.plain(),
        }

    def _resume(self) -> None:
        """Take the last checkpoint up; without one the run begins anew."""
        found = self._run.latest()
        self._run.forget_after(0 if found is None else found.state["num_lines"])
        if found is None:
            return
        state, phase = found.state, Phase(found.state["phase"])
        if phase is not Phase.DONE:
            self._begin(phase)
        self.phase = phase
        self.num_done = {Phase(name): num for name, num in state["num_done"].items()}
        self._policy_version, self._num_quarantined = state["policy_version"], state["num_quarantined"]
        self.learner.num_steps_done = state["learner_steps"]
        self._pending = None if state["pending"] is None else collected_of(state["pending"])
        self.curriculum.restore(state["curriculum"])
        if self._scale is not None:
            self._scale.restore(state["scale"])
        if self._band is not None:
            self._band.restore(state["entropy"])
        if self.conflict is not None:
            self.conflict.restore(state["conflict"])
        if self.critic is not None:
            self.critic.restore(state["critic"])
            load_critic(found.tensors, self.critic)
        load_learner(found.tensors, self._parts.model, self.learner.optimizer)
        self._parts.sampler.update(self._policy_version)
