"""The story of a student: cut from its base, taught on given answers (KD), then on its own (GKD, arXiv:2306.13649).

The first stage is `cut`; the model that it leaves comes in here. One step reads from top to bottom in
`StudentTrainer._learn`: who is asked what, who answers, what is learned. What a run is at any border between steps is
in its checkpoint, and nothing else: every draw is a function of the seed and the draw's name, so a run that was stopped
goes on to the same weights, bit for bit on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from distill.lessons import Lessons, Speakers
from distill.recipe import PhaseSettings, StudentRecipe, TaughtRecipe
from distill.student_learner import StudentLearner
from distill.student_loss import Matched, StudentLoss
from distill.teacher import Teacher
from train.checkpointing import Checkpoint
from train.codec import Codec
from train.domains.base import Domain, Item
from train.evaluate import Evaluation, evaluate, held_out
from train.learner_state import load_moving, moving_tensors
from train.model.llama import Llama
from train.model.trainable import train_all, train_top_layers
from train.policy import LINEAR_MAPS
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Sampler
from train.run_directory import Run
from train.steps import MAX_QUARANTINED, TrainingError
from train.verifiers.pool import Judge

TEACHER: Final = "teacher"
"""When the evaluation is that of the teacher."""


class Phase(StrEnum):
    """Where a run is."""

    KD = "kd"
    GKD = "gkd"
    DONE = "done"


NEXT: Final = {Phase.KD: Phase.GKD, Phase.GKD: Phase.DONE}


@dataclass(frozen=True, slots=True)
class Step:
    """One step, or an evaluation, for whoever watches."""

    phase: Phase
    number: int
    num_steps: int
    metrics: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StudentParts:
    """What a run is made of."""

    student: Llama
    """As it was cut; its weights move."""
    matched: Matched
    teacher: Teacher
    codec: Codec
    domains: Mapping[str, Domain]
    """Audited."""
    pool: Judge


class StudentTrainer:
    """Teaches.

    Args:
        recipe: what to do.
        parts: with what.
        run: where it is kept.
        on_step: told of every step, and of what an evaluation found.
        on_evaluation: told that one begins: when, and of how many items.
        is_stopping: asked at every border between steps; once true, the run is saved and `run` returns.

    Raises:
        TrafficError: served prompts are asked for and cannot be had.
    """

    def __init__(
        self,
        recipe: StudentRecipe,
        parts: StudentParts,
        run: Run,
        *,
        on_step: Callable[[Step], None] = lambda _: None,
        on_evaluation: Callable[[str, int], None] = lambda *_: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._recipe, self._parts, self._run = recipe, parts, run
        self._on_step, self._on_evaluation, self._is_stopping = on_step, on_evaluation, is_stopping
        self._limits = {domain.name: domain.max_answer_tokens for domain in recipe.domains}
        self._items = held_out_items(recipe, parts.domains)
        mark_moving(recipe, parts.student)
        self._sampler = InProcessSampler(parts.student)
        self._num_done = {Phase.KD: 0, Phase.GKD: 0}
        self._version = self._num_quarantined = 0
        self._begin(Phase.KD)

    def run(self, *, is_resumed: bool = False) -> bool:
        """Go to the end, or to where the run is told to stop; whether it came to the end.

        Raises:
            TrainingError: gradients are not finite any more.
        """
        if is_resumed:
            self._resume()
        if not self._run.num_lines:
            self._evaluate(TEACHER, self._parts.teacher.sampler)
            self._evaluate("cut", self._evaluator())
            self.save()
        while self.phase is not Phase.DONE:
            if self._is_stopping():
                self.save()
                return False
            self._step()
        return True

    def _begin(self, phase: Phase) -> None:
        """Set up what a phase starts with; its optimiser knows nothing of the one before."""
        recipe, parts, self.phase = self._recipe, self._parts, phase
        settings = self._settings
        self.lessons = Lessons(
            recipe,
            phase,
            settings,
            parts.domains,
            Speakers(parts.codec, parts.teacher.sampler, self._sampler),
            {item.prompt for items in self._items.values() for item in items},
        )
        loss = StudentLoss(parts.student, parts.teacher, settings, parts.matched)
        self.learner = StudentLearner(parts.student, loss, settings, recipe.micro_batch_tokens)

    @property
    def _settings(self) -> PhaseSettings:
        return self._recipe.kd if self.phase is Phase.KD else self._recipe.gkd

    def _step(self) -> None:
        """One step of the phase, or the border to the next."""
        phase, number = self.phase, self._num_done[self.phase]
        if number >= self._settings.num_steps:
            return self._next_phase()
        began = time.perf_counter()
        metrics = self._learn(number)
        metrics["seconds"] = time.perf_counter() - began
        self._num_done[phase] += 1
        self._run.record(phase, self._num_done[phase], metrics)
        self._on_step(Step(phase, self._num_done[phase], self._settings.num_steps, metrics))
        num_done, every = sum(self._num_done.values()), self._recipe.evaluation.every_steps
        is_last = number + 1 == self._settings.num_steps  # evaluated at the border
        if every and num_done % every == 0 and not is_last:
            self._evaluate("during", self._evaluator())
        if num_done % self._recipe.checkpoint_every_steps == 0:
            self.save()
        return None

    def _learn(self, number: int) -> dict[str, Any]:
        """Ask, let answer, learn; the step's metrics."""
        if self._settings.student_share:
            self._sampler.update(self._version)
        began = time.perf_counter()
        lesson = self.lessons.lesson(number)
        answered = time.perf_counter()
        metrics = self.learner.step(lesson.groups, number)
        if metrics["is_applied"]:
            self._version += 1
            self._num_quarantined = 0
        else:
            self._num_quarantined += 1
            if self._num_quarantined >= MAX_QUARANTINED:
                raise TrainingError(
                    f"the gradients of {MAX_QUARANTINED} steps in a row were not finite; begin again with a lower "
                    f"{self.phase}.learning_rate"
                )
        return {
            **metrics,
            "num_left_out": lesson.num_left_out,
            "answer_seconds": answered - began,
            "learn_seconds": time.perf_counter() - answered,
        }

    def _next_phase(self) -> None:
        if self._num_done[self.phase]:
            self._evaluate(f"after_{self.phase}", self._evaluator())
        following = NEXT[self.phase]
        if following is Phase.DONE:
            self.phase = following
        else:
            self._begin(following)
        self.save()

    def _evaluator(self) -> Sampler:
        """Of the student as it is now."""
        kind = self._recipe.evaluation.sampler
        return InProcessSampler(self._parts.student, make_linear=LINEAR_MAPS[kind])

    def _evaluate(self, when: str, sampler: Sampler) -> None:
        self._on_evaluation(when, sum(map(len, self._items.values())))
        found = self.evaluation(sampler)
        metrics = {"when": when, "greedy": found.greedy.mean, "evaluation": found.plain()}
        if found.sampled is not None:
            metrics["sampled"] = found.sampled.mean
        num_done = sum(self._num_done.values())
        self._run.record("evaluation", num_done, metrics)
        self._on_step(Step(self.phase, num_done, num_done, metrics))

    def evaluation(self, sampler: Sampler) -> Evaluation:
        """What a model can do on the held-out items."""
        parts = self._parts
        return evaluate(
            self._items,
            domains=parts.domains,
            sampler=sampler,
            codec=parts.codec,
            pool=parts.pool,
            max_tokens=lambda item: self._limits[item.domain] or item.max_answer_tokens,
            num_samples=self._recipe.evaluation.num_samples,
        )

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        state = {
            "phase": self.phase.value,
            "num_done": {phase.value: num for phase, num in self._num_done.items()},
            "num_lines": self._run.num_lines,
            "version": self._version,
            "num_quarantined": self._num_quarantined,
            "lessons": self.lessons.plain(),
        }
        tensors = moving_tensors(self.learner.weights, self.learner.optimizer)
        self._run.save(Checkpoint(sum(self._num_done.values()), tensors, state))

    def _resume(self) -> None:
        """Take the last checkpoint up; without one the run begins anew."""
        found = self._run.latest()
        self._run.forget_after(0 if found is None else found.state["num_lines"])
        if found is None:
            return
        state, phase = found.state, Phase(found.state["phase"])
        self._begin(Phase.GKD if phase is Phase.DONE else phase)
        self.phase = phase
        self._num_done = {Phase(name): num for name, num in state["num_done"].items()}
        self._version, self._num_quarantined = state["version"], state["num_quarantined"]
        self.lessons.restore(state["lessons"])
        load_moving(found.tensors, self.learner.weights, self.learner.optimizer)


def held_out_items(recipe: TaughtRecipe, domains: Mapping[str, Domain]) -> dict[str, list[Item]]:
    """What evaluations ask, by domain."""
    num = recipe.evaluation.num_items
    return {entry.name: held_out(domains[entry.name], entry.levels, num) for entry in recipe.domains}


def mark_moving(recipe: StudentRecipe, student: Llama) -> None:
    """Which of the student's weights move."""
    if recipe.trained == "all":
        train_all(student)
    else:
        train_top_layers(student, student.shape.num_layers)
