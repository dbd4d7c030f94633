"""The story of a run: learn by heart, then reinforce; evaluate around each; survive being stopped anywhere.

One step of reinforcement reads from top to bottom in `Trainer._reinforce`: plan, sample, judge, credit, learn, observe.
What a run is at any border between steps is in `Trainer.state`, and nothing else: every draw is a function of the seed
and the draw's name, so a run that was interrupted goes on to the same weights, bit for bit on one machine.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any, Final, Protocol

from torch import Tensor

from train.advantages import DomainScale
from train.batch import Group
from train.checkpointing import Checkpoint, load_latest, save
from train.codec import Codec
from train.conflict import ConflictProbe
from train.credit import by_heart, reinforced
from train.curriculum import Curriculum, Draw
from train.domains.base import Domain, Item, Verdict
from train.entropy import EntropyBand
from train.evaluate import Evaluation, evaluate, held_out
from train.learner import Learner, LearnerConfig, StepReport, TrainedModel
from train.losses import Clip
from train.recipe import Recipe
from train.rollouts.rollout import Rollout, Sampler, SampleRequest, Sampling, Span
from train.run_directory import RunDirectory
from train.seeds import seed_of
from train.transcript import Message, Transcript, answered
from train.verifiers.pool import Pool

MAX_QUARANTINED: Final = 5
"""Steps in a row whose gradient was not finite, after which a run gives up rather than go on doing nothing."""


class Phase(StrEnum):
    """Where a run is."""

    SFT = "sft"
    RL = "rl"
    DONE = "done"


class TrainingError(Exception):
    """A run cannot go on; the message says why."""


class ReferencedModel(TrainedModel, Protocol):
    """A trained model that can hold a copy of itself to be kept near to."""

    def keep_reference(self) -> None:
        """Take the weights as they are."""
        ...

    def reference(self, groups: Sequence[Group]) -> Tensor:
        """(tokens,): log-probs by the weights that were taken."""
        ...

    def reference_tensors(self) -> dict[str, Tensor]:
        """The weights that were taken, by name; empty where none were."""
        ...

    def load_reference(self, tensors: Mapping[str, Tensor]) -> None:
        """Be kept near to these."""
        ...


class UpdatedSampler(Sampler, Protocol):
    """A sampler that can be told of new weights."""

    def update(self, policy_version: int) -> None:
        """Sample from the weights as they are now, under this version."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of."""

    model: ReferencedModel
    sampler: UpdatedSampler
    codec: Codec
    domains: Mapping[str, Domain]
    """Audited."""
    pool: Pool


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
        is_stopping: asked at every border between steps; once true, the run is saved and `run` returns.
    """

    def __init__(
        self,
        recipe: Recipe,
        parts: Parts,
        run: RunDirectory,
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
        self._max_tokens = {
            domain.name: domain.max_answer_tokens
            for domain in recipe.domains
            if domain.max_answer_tokens is not None
        }
        self._begin(Phase.SFT)
        self.num_done = {Phase.SFT: 0, Phase.RL: 0}
        self._num_quarantined = 0
        self._policy_version = 0

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
        if rl.reference_weight and phase is Phase.RL:
            self._parts.model.keep_reference()
        self.learner = Learner(
            self._parts.model,
            LearnerConfig(
                objective=rl.objective,
                clip=Clip(low=rl.clip_low, high=rl.clip_high),
                learning_rate=node.learning_rate,
                num_warmup_steps=node.num_warmup_steps,
                num_steps=node.num_steps,
                reference_weight=rl.reference_weight if phase is Phase.RL else 0.0,
                micro_batch_tokens=recipe.micro_batch_tokens,
                max_tokens=max(self._max_tokens.values(), default=64),
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
        codec = self._parts.codec
        items = self._items(self.curriculum.plan(number, self._recipe.sft.items_per_step))
        groups = [
            by_heart(
                item.domain,
                codec.prompt([Message("user", item.prompt)]),
                codec.answer(self._parts.domains[item.domain].reference(item).answer),
            )
            for item in items
        ]
        return self._learned(self.learner.step(groups))

    def _reinforce(self, number: int) -> dict[str, Any]:
        rl = self._recipe.rl
        if rl.reference_weight and rl.reference_reset_steps and number % rl.reference_reset_steps == 0:
            self._parts.model.keep_reference()
        draws = self.curriculum.plan(number, rl.groups_per_step)
        items = self._items(draws)
        began = time.perf_counter()
        rollouts = self._sample(items, number)
        sampled = time.perf_counter()
        verdicts = self._judge(items, rollouts)
        judged = time.perf_counter()
        groups = [
            reinforced(item, of_item, told, self._scale)
            for item, of_item, told in zip(items, rollouts, verdicts, strict=True)
        ]
        metrics = self._learned(self.learner.step(groups))
        self._observe(draws, verdicts)
        return metrics | {
            **_outcome(items, rollouts, verdicts),
            "sample_seconds": sampled - began,
            "judge_seconds": judged - sampled,
            "learn_seconds": time.perf_counter() - judged,
        }

    def _items(self, draws: Sequence[Draw]) -> list[Item]:
        seed = seed_of(self._recipe.seed, "items")
        return [self._parts.domains[draw.domain].item(seed, draw.index, draw.level) for draw in draws]

    def _sample(self, items: Sequence[Item], number: int) -> list[list[Rollout]]:
        rl, codec = self._recipe.rl, self._parts.codec
        prompts = [Span(codec.prompt([Message("user", item.prompt)])) for item in items]
        self._parts.sampler.update(self._policy_version)
        requests = [
            SampleRequest(
                prompt.token_ids,
                tuple(
                    seed_of(self._recipe.seed, "rollout", number, place, each)
                    for each in range(rl.rollouts_per_group)
                ),
            )
            for place, prompt in enumerate(prompts)
        ]
        sampling = Sampling(
            temperature=rl.temperature,
            max_tokens=max(map(self._max_answer_tokens, items)),
            stop_token_ids=(codec.end_token_id,),
        )
        drawn = self._parts.sampler.sample(requests, sampling)
        return [
            [Rollout((prompt, span), stop) for span, stop in spans]
            for prompt, spans in zip(prompts, drawn, strict=True)
        ]

    def _judge(self, items: Sequence[Item], rollouts: Sequence[Sequence[Rollout]]) -> list[list[Verdict]]:
        pairs = [
            (item, self._transcript(rollout))
            for item, of_item in zip(items, rollouts, strict=True)
            for rollout in of_item
        ]
        verdicts = iter(self._parts.pool.verify_all(pairs))
        return [[next(verdicts) for _ in of_item] for of_item in rollouts]

    def _transcript(self, rollout: Rollout) -> Transcript:
        return answered(self._parts.codec.text(rollout.spans[-1].token_ids))

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

    def _max_answer_tokens(self, item: Item) -> int:
        return self._max_tokens.get(item.domain, item.max_answer_tokens)

    def evaluation(self) -> Evaluation:
        """What the policy can do now."""
        node, parts = self._recipe.evaluation, self._parts
        self._parts.sampler.update(self._policy_version)
        items = {
            name: held_out(parts.domains[name], levels, node.num_items)
            for name, levels in self._levels.items()
        }
        return evaluate(
            items,
            sampler=parts.sampler,
            codec=parts.codec,
            pool=parts.pool,
            max_tokens=self._max_answer_tokens,
            num_samples=node.num_samples,
        )

    def _evaluate(self, when: str) -> None:
        found = self.evaluation()
        metrics: dict[str, Any] = {
            "when": when,
            "phase_steps": self.num_done.get(self.phase, 0),
            "greedy": found.greedy.mean,
            "evaluation": found.plain(),
        }
        if found.sampled is not None:
            metrics["sampled"] = found.sampled.mean
        number = sum(self.num_done.values())
        self._run.record("evaluation", number, metrics)
        self._on_step(Step(self.phase, number, number, metrics))

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        weights = self._parts.model.trained()
        names = list(weights)
        tensors = {f"weight.{name}": weight.detach() for name, weight in weights.items()}
        for place, moments in self.learner.optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                tensors[f"optimizer.{name}.{names[place]}"] = value
        for name, tensor in self._parts.model.reference_tensors().items():
            tensors[f"reference.{name}"] = tensor
        save(self._run.checkpoints, Checkpoint(sum(self.num_done.values()), tensors, self._state()))

    def _state(self) -> dict[str, Any]:
        return {
            "phase": self.phase.value,
            "num_done": {phase.value: num for phase, num in self.num_done.items()},
            "num_lines": self._run.num_lines,
            "policy_version": self._policy_version,
            "num_quarantined": self._num_quarantined,
            "learner_steps": self.learner.num_steps_done,
            "curriculum": self.curriculum.plain(),
            "scale": None if self._scale is None else self._scale.plain(),
            "entropy": None if self._band is None else self._band.plain(),
            "conflict": None if self.conflict is None else self.conflict.plain(),
        }

    def _resume(self) -> None:
        """Take the last checkpoint up; without one the run begins anew."""
        found = load_latest(self._run.checkpoints)
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
        self.curriculum.restore(state["curriculum"])
        if self._scale is not None:
            self._scale = DomainScale.restored(state["scale"])
        if self._band is not None:
            self._band.restore(state["entropy"])
        if self.conflict is not None:
            self.conflict.restore(state["conflict"])
        self._load(found.tensors)

    def _load(self, tensors: Mapping[str, Tensor]) -> None:
        weights = self._parts.model.trained()
        moments: dict[int, dict[str, Tensor]] = {}
        for place, name in enumerate(weights):
            weights[name].data.copy_(tensors[f"weight.{name}"])
            found = {
                kind: tensors[f"optimizer.{kind}.{name}"]
                for kind in ("step", "exp_avg", "exp_avg_sq")
                if f"optimizer.{kind}.{name}" in tensors
            }
            if found:
                moments[place] = found
        optimizer = self.learner.optimizer
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
        reference = {
            name.removeprefix("reference."): tensor
            for name, tensor in tensors.items()
            if name.startswith("reference.")
        }
        if reference:
            self._parts.model.load_reference(reference)


def _outcome(
    items: Sequence[Item], rollouts: Sequence[Sequence[Rollout]], verdicts: Sequence[Sequence[Verdict]]
) -> dict[str, Any]:
    """What became of a step's rollouts, altogether and by domain."""
    by_domain: dict[str, list[float]] = defaultdict(list)
    for item, told in zip(items, verdicts, strict=True):
        by_domain[item.domain] += [verdict.score for verdict in told]
    told_all = [verdict for told in verdicts for verdict in told]
    lengths = [rollout.num_sampled for of_item in rollouts for rollout in of_item]
    return {
        "score": fmean(verdict.score for verdict in told_all),
        "error_share": fmean(verdict.error is not None for verdict in told_all),
        "alike_share": fmean(len({verdict.score for verdict in told}) == 1 for told in verdicts),
        "num_sampled": sum(lengths),
        "mean_length": fmean(lengths),
        **{f"score/{domain}": fmean(scores) for domain, scores in by_domain.items()},
    }
