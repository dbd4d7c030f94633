"""The story of early exits: a copy of a model's first layers learns to say behind each exit what the whole model says.

One step reads in `ExitTrainer._learn`: what is asked, who answers (references and the whole model), what is learned.
Every draw is a function of the seed and the step; a checkpoint has the weights that move, their moments, and what the
rotation over domains owes, so a run that was stopped goes on to the same weights, bit for bit on one machine.
At the end each exit is asked the held-out items that the whole model was asked at the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from distill.early_exit import Exiting, ExitLoss, exit_name
from distill.exit_recipe import ExitRecipe
from distill.lessons import Lessons, Speakers
from distill.student_learner import StudentLearner
from distill.student_parts import Workshop
from distill.trainer import TEACHER, Phase, Step, held_out_items
from train.checkpointing import Checkpoint
from train.evaluate import Evaluation, evaluate
from train.learner_state import load_moving, moving_tensors
from train.policy import LINEAR_MAPS
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Sampler
from train.run_directory import Run
from train.steps import MAX_QUARANTINED, TrainingError

_PHASE: Final = Phase.KD


class ExitTrainer:
    """Teaches exits.

    Args:
        recipe: what to do.
        workshop: the whole model, who teaches, and the domains.
        exiting: learns.
        run: where it is kept.
        on_step: told of every step, and of what an evaluation found.
        on_evaluation: told that one begins: when, and of how many items.
        is_stopping: asked at every border between steps; once true, the run is saved and `run` returns.

    Raises:
        TrafficError: served prompts are asked for and cannot be had.
    """

    def __init__(
        self,
        recipe: ExitRecipe,
        workshop: Workshop,
        exiting: Exiting,
        run: Run,
        *,
        on_step: Callable[[Step], None] = lambda _: None,
        on_evaluation: Callable[[str, int], None] = lambda *_: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._recipe, self._workshop, self._exiting, self._run = recipe, workshop, exiting, run
        self._on_step, self._on_evaluation, self._is_stopping = on_step, on_evaluation, is_stopping
        self._limits = {domain.name: domain.max_answer_tokens for domain in recipe.domains}
        self._items = held_out_items(recipe, workshop.domains)
        own = InProcessSampler(exiting.trunk)  # never asked: no answer here is an exit's
        speakers = Speakers(workshop.base.codec, workshop.teacher.sampler, own)
        self.lessons = Lessons(recipe, _PHASE, recipe.kd, workshop.domains, speakers, workshop.without)
        loss = ExitLoss(exiting, workshop.teacher, recipe.kd, recipe.weighting)
        self.learner = StudentLearner(exiting, loss, recipe.kd, recipe.micro_batch_tokens)
        self._num_done = self._num_quarantined = 0
        self._evaluated: list[int] = []

    def run(self, *, is_resumed: bool = False) -> bool:
        """Go to the end, or to where the run is told to stop; whether it came to the end.

        Raises:
            TrainingError: gradients are not finite any more.
        """
        if is_resumed:
            self._resume()
        if not self._run.num_lines:
            self._evaluate(TEACHER, self._workshop.teacher.sampler)
            self._save()
        while self._num_done < self._recipe.kd.num_steps:
            if self._is_stopping():
                self._save()
                return False
            self._step()
        for depth in self._exiting.exits[len(self._evaluated) :]:
            self._save()
            if self._is_stopping():
                return False
            self._evaluate(exit_name(depth), self.sampler(depth))
            self._evaluated.append(depth)
        self._save()
        return True

    def _step(self) -> None:
        began = time.perf_counter()
        metrics = self._learn(self._num_done)
        metrics["seconds"] = time.perf_counter() - began
        self._num_done += 1
        self._run.record(_PHASE, self._num_done, metrics)
        self._on_step(Step(_PHASE, self._num_done, self._recipe.kd.num_steps, metrics))
        if self._num_done % self._recipe.checkpoint_every_steps == 0:
            self._save()

    def _learn(self, number: int) -> dict[str, Any]:
        """Ask, let answer, learn; the step's metrics."""
        began = time.perf_counter()
        lesson = self.lessons.lesson(number)
        answered = time.perf_counter()
        metrics = self.learner.step(lesson.groups, number)
        self._num_quarantined = 0 if metrics["is_applied"] else self._num_quarantined + 1
        if self._num_quarantined >= MAX_QUARANTINED:
            raise TrainingError(
                f"the gradients of {MAX_QUARANTINED} steps in a row were not finite; begin again with a lower "
                "kd.learning_rate"
            )
        return {
            **metrics,
            "num_left_out": lesson.num_left_out,
            "answer_seconds": answered - began,
            "learn_seconds": time.perf_counter() - answered,
        }

    def sampler(self, depth: int) -> Sampler:
        """Of an exit as it is now, standing alone."""
        kind = self._recipe.evaluation.sampler
        return InProcessSampler(self._exiting.standing_alone(depth), make_linear=LINEAR_MAPS[kind])

    def _evaluate(self, when: str, sampler: Sampler) -> None:
        self._on_evaluation(when, sum(map(len, self._items.values())))
        found = self.evaluation(sampler)
        metrics = {"when": when, "greedy": found.greedy.mean, "evaluation": found.plain()}
        if found.sampled is not None:
            metrics["sampled"] = found.sampled.mean
        self._run.record("evaluation", self._num_done, metrics)
        self._on_step(Step(_PHASE, self._num_done, self._recipe.kd.num_steps, metrics))

    def evaluation(self, sampler: Sampler) -> Evaluation:
        """What a model can do on the held-out items."""
        workshop = self._workshop
        return evaluate(
            self._items,
            domains=workshop.domains,
            sampler=sampler,
            codec=workshop.base.codec,
            pool=workshop.pool,
            max_tokens=lambda item: self._limits[item.domain] or item.max_answer_tokens,
            num_samples=self._recipe.evaluation.num_samples,
        )

    def _save(self) -> None:
        """Write a checkpoint of this moment."""
        state = {
            "num_lines": self._run.num_lines,
            "num_quarantined": self._num_quarantined,
            "evaluated": self._evaluated,
            "lessons": self.lessons.plain(),
        }
        tensors = moving_tensors(self.learner.weights, self.learner.optimizer)
        self._run.save(Checkpoint(self._num_done, tensors, state))

    def _resume(self) -> None:
        """Take the last checkpoint up; without one the run begins anew."""
        found = self._run.latest()
        self._run.forget_after(0 if found is None else found.state["num_lines"])
        if found is None:
            return
        self._num_done, self._num_quarantined = found.num_steps, found.state["num_quarantined"]
        self._evaluated = list(found.state["evaluated"])
        self.lessons.restore(found.state["lessons"])
        load_moving(found.tensors, self.learner.weights, self.learner.optimizer)
