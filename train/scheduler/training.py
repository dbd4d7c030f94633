"""A job of the queue as a run of the trainer: begun, or gone on with where its directory has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from train.parts import Parts
from train.recipe import Recipe
from train.run_directory import RECIPE_NAME, RunDirectory
from train.scheduler.slot import Tick
from train.trainer import Step, Trainer


class TrainingJob:
    """Runs recipes; a `slot.RunJob`.

    Args:
        assemble: puts a recipe's parts together, and takes them apart.
        on_step: told of every step, for whoever watches.
    """

    def __init__(
        self,
        assemble: Callable[[Recipe], AbstractContextManager[Parts]],
        on_step: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._assemble = assemble
        self._on_step = on_step

    def __call__(
        self,
        recipe: Mapping[str, Any],
        path: Path,
        *,
        on_tick: Callable[[Tick], None],
        is_stopping: Callable[[], bool],
    ) -> bool:
        """Run or go on; whether it came to its end."""
        wanted = Recipe.model_validate(recipe)
        is_resumed = (path / RECIPE_NAME).exists()
        num_steps = wanted.sft.num_steps + wanted.rl.num_steps
        with self._assemble(wanted) as parts, RunDirectory(path, wanted, is_resumed=is_resumed) as run:

            def step(done: Step) -> None:
                num_done = sum(trainer.num_done.values())
                on_tick(Tick(num_done, num_steps, float(done.metrics.get("seconds", 0.0))))
                self._on_step(done)

            trainer = Trainer(wanted, parts, run, on_step=step, is_stopping=is_stopping)
            return trainer.run(is_resumed=is_resumed)
