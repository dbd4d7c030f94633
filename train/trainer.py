"""The story of a run: learn by heart, then reinforce; evaluate around each; survive being stopped anywhere.

A run reads from top to bottom in `Trainer.run`, and a step in `train.steps`. What a run is at any border between steps
is in its checkpoint, and nothing else: every draw is a function of the seed and the draw's name, so a run that was
interrupted goes on to the same weights, bit for bit on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from train.checkpointing import Checkpoint
from train.domains.base import Item
from train.held_out import HeldOut
from train.mode_scores import ModeScores
from train.parts import Parts
from train.phase import Phase
from train.recipe import Recipe
from train.rollouts.rollout import Sampler
from train.run_directory import Run
from train.steps import Steps


@dataclass(frozen=True, slots=True)
class Step:
    """One step, or an evaluation, for whoever watches."""

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
        on_step: told of every step and of what an evaluation found.
        on_evaluation: told that one begins, which may take longer than a hundred steps: when, and of how many items.
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
        on_evaluation: Callable[[str, int], None] = lambda *_: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._recipe = recipe
        self._parts = parts
        self._run = run
        self._on_step = on_step
        self._on_evaluation = on_evaluation
        self._is_stopping = is_stopping
        self._steps = Steps(recipe, parts, is_stopping)
        self._held_out = HeldOut(recipe, parts)
        self.phase = Phase.SFT
        self.num_done = {Phase.SFT: 0, Phase.RL: 0}

    @property
    def is_pending(self) -> bool:
        """Whether rollouts are there that nothing has been learned from yet."""
        return self._steps.pending is not None

    def run(self, *, is_resumed: bool = False) -> bool:
        """Go to the end, or to where the run is told to stop; whether it came to the end.

        Raises:
            TrainingError: gradients are not finite any more, or rollouts too old.
        """
        if is_resumed:
            self._resume()
        if not self._run.num_lines:
            self._evaluate("before")
        while self.phase is not Phase.DONE:
            if self._is_stopping():
                self.save()
                return False
            self._advance()
        return True

    def _advance(self) -> None:
        """One step of the phase, or the border to the next phase."""
        node = self._recipe.sft if self.phase is Phase.SFT else self._recipe.rl
        if self.num_done[self.phase] >= node.num_steps:
            return self._next_phase()
        began = time.perf_counter()
        metrics = self._steps.take(self.num_done[self.phase])
        if metrics is None:  # told to stop; the rollouts wait
            return None
        metrics["seconds"] = time.perf_counter() - began
        self.num_done[self.phase] += 1
        number = self.num_done[self.phase]
        self._run.record(self.phase, number, metrics)
        self._on_step(Step(self.phase, number, node.num_steps, metrics))
        every = self._recipe.evaluation.every_steps
        if self.phase is Phase.RL and every and number % every == 0:
            self._evaluate("during")
        if number % self._recipe.checkpoint_every_steps == 0:
            self.save()
        return None

    def _next_phase(self) -> None:
        if self.num_done[self.phase]:
            self._evaluate(f"after_{self.phase}")
        self.phase = Phase.RL if self.phase is Phase.SFT else Phase.DONE
        if self.phase is not Phase.DONE:
            self._steps.begin(self.phase)
        self.save()

    def _evaluate(self, when: str) -> None:
        number = sum(self.num_done.values())
        self._on_evaluation(when, self._held_out.num_items)
        found, shown = self._held_out.measure(self._steps.policy_version)
        metrics = {"when": when, "phase_steps": self.num_done.get(self.phase, 0), **found}
        self._run.keep_answers({"when": when, "step": number, "answers": shown})
        self._run.record("evaluation", number, metrics)
        self._on_step(Step(self.phase, number, number, metrics))

    def evaluator(self) -> Sampler:
        """What evaluations draw from (`evaluation.sampler`), of the weights as they are now."""
        return self._parts.evaluator(self._steps.policy_version)

    def max_answer_tokens(self, item: Item) -> int:
        """What an answer to it may take."""
        return self._held_out.max_tokens(item)

    def mode_scores(self) -> list[ModeScores]:
        """What each mode is worth now, by domain and level."""
        return self._held_out.mode_scores(self._steps.policy_version)

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        state = {
            "phase": self.phase.value,
            "num_done": {phase.value: num for phase, num in self.num_done.items()},
            "num_lines": self._run.num_lines,
            **self._steps.plain(),
        }
        self._run.save(Checkpoint(sum(self.num_done.values()), self._steps.tensors(), state))

    def _resume(self) -> None:
        """Take the last checkpoint up; without one the run begins anew."""
        found = self._run.latest()
        self._run.forget_after(0 if found is None else found.state["num_lines"])
        if found is None:
            return
        self.phase = Phase(found.state["phase"])
        self.num_done = {Phase(name): num for name, num in found.state["num_done"].items()}
        self._steps.restore(self.phase, found.state, found.tensors)
