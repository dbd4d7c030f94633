"""Early exits' recipe: how deep they are and what they are taught, in one TOML file; `distill.exit_trainer` runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from distill.recipe import TaughtRecipe, load_taught


class Weighting(StrEnum):
    """How much each exit counts."""

    EQUAL = "equal"
    DEPTH = "depth"
    """In proportion to its depth: what a deep exit learns, layers below it have to leave it room for."""

    def shares(self, exits: Sequence[int]) -> dict[int, float]:
        """Depth → its share of the loss; together 1."""
        weights = {depth: 1.0 if self is Weighting.EQUAL else float(depth) for depth in exits}
        return {depth: weight / sum(weights.values()) for depth, weight in weights.items()}


class ExitRecipe(TaughtRecipe):
    """The whole tree; `kd` is its one phase."""

    exits: tuple[int, ...] = Field(min_length=1)
    """Behind how many layers one can leave, rising."""
    weighting: Weighting = Weighting.EQUAL

    @model_validator(mode="after")
    def _exits_rise(self) -> Self:
        if list(self.exits) != sorted(set(self.exits)) or self.exits[0] < 1:
            raise ValueError("exits are numbers of layers, rising from 1, each once")
        return self

    @model_validator(mode="after")
    def _asked_at_the_end(self) -> Self:
        if self.evaluation.every_steps:
            raise ValueError("exits are evaluated at the end alone: leave out evaluation.every_steps")
        return self

    @model_validator(mode="after")
    def _only_answers_of_others(self) -> Self:
        kd = self.kd
        if kd.student_share or kd.cross_entropy_weight or kd.hidden_weight:
            raise ValueError(
                "exits learn the teacher's distribution alone: leave out kd.student_share, kd.cross_entropy_weight and "
                "kd.hidden_weight; `tierwise distill student` with prune.kept_layers takes them for one depth"
            )
        return self


def load_recipe(name_or_path: str, overrides: Mapping[str, object] | None = None) -> ExitRecipe:
    """A shipped recipe by its name, or a file that ends in `.toml`, with members changed by dotted path.

    Raises:
        RecipeError: there is none, or it says what cannot be.
    """
    return load_taught(ExitRecipe, name_or_path, overrides or {})
