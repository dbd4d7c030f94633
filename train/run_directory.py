"""A run's directory: its recipe, its checkpoints, one line of metrics a step, and curves for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from pydantic import ValidationError

from serving.engines.base import SettingsNode
from train.checkpointing import Checkpoint, load_latest, save
from train.parts import LearningModel
from train.recipe import Recipe, Tree
from train.stages import Stretch

RECIPE_NAME: Final = "recipe.json"
METRICS_NAME: Final = "metrics.jsonl"
ANSWERS_NAME: Final = "answers.json"
CHECKPOINTS_NAME: Final = "checkpoints"


class RunError(Exception):
    """A run cannot be begun or taken up where it was asked for; the message names the remedy."""


class Run(Protocol):
    """Where a trainer keeps what it does."""

    @property
    def num_lines(self) -> int:
        """Of metrics, so far."""
        ...

    def record(self, phase: str, step: int, metrics: Mapping[str, Any]) -> None:
        """One line of the phase's step."""
        ...

    def keep_answers(self, answers: Mapping[str, Any]) -> None:
        """Some answers of the last evaluation, in place of those before."""
        ...

    def forget_after(self, num_lines: int) -> None:
        """Drop all lines but the first `num_lines`."""
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint."""
        ...

    def latest(self) -> Checkpoint | None:
        """The last one that was kept; None where there is none."""
        ...


class RunDirectory:
    """Where a run keeps what it does. Entered, its metrics are open for writing.

    Args:
        path: created where absent.
        recipe: what is run.
        is_resumed: whether a run that is there already is gone on with.

    Raises:
        RunError: there is a run already and it is not to be resumed, or it was made by another recipe.
    """

    def __init__(self, path: Path, recipe: SettingsNode, *, is_resumed: bool) -> None:
        self.path = path
        self.checkpoints = path / CHECKPOINTS_NAME
        kept = path / RECIPE_NAME
        if kept.exists():
            if not is_resumed:
                raise RunError(
                    f"{path} holds a run already; go on with it by --resume, or name another directory"
                )
            if read_tree(type(recipe), path) != recipe:
                raise RunError(
                    f"{path} was begun with another recipe, which {kept} has; resume with that one"
                )
        elif is_resumed:
            raise RunError(f"{path} holds no run to resume; leave --resume out to begin one")
        path.mkdir(parents=True, exist_ok=True)
        if not is_resumed:
            kept.write_text(json.dumps(recipe.model_dump(mode="json"), indent=2) + "\n")

    def __enter__(self) -> Self:
        from torch.utils.tensorboard import SummaryWriter

        self._lines = (self.path / METRICS_NAME).open("a", encoding="utf-8")
        self.num_lines = len((self.path / METRICS_NAME).read_text(encoding="utf-8").splitlines())
        self._curves = SummaryWriter(str(self.path / "tensorboard"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._curves.close()

    def record(self, phase: str, step: int, metrics: Mapping[str, Any]) -> None:
        """One line of the phase's step. A number that is not finite is kept as its name, for JSON has none."""
        line = {"phase": phase, "step": step, **metrics}
        self._lines.write(json.dumps(_spellable(line)) + "\n")
        self._lines.flush()
        self.num_lines += 1
        for name, value in metrics.items():
            if isinstance(value, int | float) and math.isfinite(value):
                self._curves.add_scalar(f"{phase}/{name}", value, step)

    def keep_answers(self, answers: Mapping[str, Any]) -> None:
        """As `Run`, beside the metrics; whoever reads meanwhile finds the ones or the others."""
        part = self.path / f".{ANSWERS_NAME}"
        part.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(self.path / ANSWERS_NAME)

    def forget_after(self, num_lines: int) -> None:
        """Drop all lines but the first `num_lines`: what a checkpoint has not seen is done again."""
        path = self.path / METRICS_NAME
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:num_lines]
        self._lines.truncate(len("".join(lines).encode()))
        self.num_lines = len(lines)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write it beside the others (`train.checkpointing`)."""
        save(self.checkpoints, checkpoint)

    def latest(self) -> Checkpoint | None:
        """The last whole one; None where there is none."""
        return load_latest(self.checkpoints)


def read_recipe(path: Path) -> Recipe:
    """The recipe of a run.

    Raises:
        RunError: there is no run there, or one of another version of recipes.
    """
    return read_tree(Recipe, path)


def read_tree(kind: type[Tree], path: Path) -> Tree:
    """The same of a run whose recipe is of any kind."""
    try:
        return kind.model_validate_json((path / RECIPE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path} holds no run; name a run's directory") from None
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise RunError(
            f"{path / RECIPE_NAME} is of another version: {fault['loc']}: {fault['msg']}"
        ) from None


def load_weights(path: Path, model: LearningModel) -> int:
    """Put the moving weights of a run's last checkpoint into `model`, and its scaling; how many steps they have seen.

    Raises:
        RunError: there is no whole checkpoint.
    """
    found = load_latest(path / CHECKPOINTS_NAME)
    if found is None:
        raise RunError(f"{path} has no checkpoint yet; wait for the first, or resume the run")
    for name, weight in model.trained().items():
        weight.data.copy_(found.tensors[f"weight.{name}"])
    context = read_recipe(path).context
    if context is not None:
        is_learned = found.state["phase"] != "sft"
        Stretch(context, model).apply("last" if is_learned else max(0, found.state["num_done"]["sft"] - 1))
    return found.num_steps


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a run's metrics, in order."""
    return [json.loads(line) for line in (path / METRICS_NAME).read_text(encoding="utf-8").splitlines()]


def read_answers(path: Path) -> dict[str, Any]:
    """What a run kept of its last evaluation's answers; empty where it kept none."""
    try:
        kept: dict[str, Any] = json.loads((path / ANSWERS_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return kept


def _spellable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _spellable(each) for name, each in value.items()}
    return value
