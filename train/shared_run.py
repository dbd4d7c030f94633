"""A run's directory as several processes see it: the first one keeps it, and tells the others what they must know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from train.checkpointing import Checkpoint
from train.processes import Processes
from train.recipe import Recipe
from train.run_directory import RunDirectory


class SharedRun:
    """A `run_directory.Run`. A checkpoint is written once and read once, so it is the same whoever wrote it.

    Args:
        path: as `RunDirectory`; none but the first process needs to see it.
        recipe: what is run.
        processes: that run it.
        is_resumed: whether a run that is there already is gone on with.

    Raises:
        RunError: as `RunDirectory`, in every process.
    """

    def __init__(self, path: Path, recipe: Recipe, processes: Processes, *, is_resumed: bool) -> None:
        self._processes = processes
        self._kept: list[RunDirectory] = []
        """In the first process, the directory."""
        processes.by_first(lambda: self._kept.append(RunDirectory(path, recipe, is_resumed=is_resumed)))
        self.num_lines = 0

    def __enter__(self) -> Self:
        for directory in self._kept:
            directory.__enter__()
        self._count()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for directory in self._kept:
            directory.__exit__(kind, error, trace)

    def record(self, phase: str, step: int, metrics: Mapping[str, Any]) -> None:
        """As `Run`; the first process's metrics, and its seconds."""
        for directory in self._kept:
            directory.record(phase, step, metrics)
        self.num_lines += 1

    def keep_answers(self, answers: Mapping[str, Any]) -> None:
        """As `Run`; the first process's."""
        for directory in self._kept:
            directory.keep_answers(answers)

    def forget_after(self, num_lines: int) -> None:
        """As `Run`."""
        for directory in self._kept:
            directory.forget_after(num_lines)
        self._count()

    def save(self, checkpoint: Checkpoint) -> None:
        """As `Run`. All return when it is on the disk.

        Raises:
            OSError: it could not be written; in every process.
        """
        self._processes.by_first(lambda: self._kept[0].save(checkpoint))

    def latest(self) -> Checkpoint | None:
        """As `Run`."""
        return self._processes.by_first(lambda: self._kept[0].latest())

    def _count(self) -> None:
        self.num_lines = self._processes.by_first(lambda: self._kept[0].num_lines)
