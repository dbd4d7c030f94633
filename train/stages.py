"""The stages of a run's context at work on its policy: how positions are scaled, and which levels are in play.

`train.context` says what a stage is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from train.context import ContextSettings, fitting
from train.parts import Parts, RotatedModel


class Stretch:
    """A model's scaling over a run.

    Args:
        settings: the stages.
        model: as it was loaded; what it says of itself is what the stages start from.
    """

    def __init__(self, settings: ContextSettings, model: RotatedModel) -> None:
        self._settings = settings
        self._model = model
        self._base = model.rope_scaling
        self._base_tokens = model.max_positions

    def apply(self, step: int | Literal["last"]) -> None:
        """Scale as at this step. Lengths up to the last stage's are taken at any, so that they can be evaluated."""
        scaling = self._settings.scaling_at(step, self._base, self._base_tokens)
        self._model.rotate_by(scaling, max(self._base_tokens, self._settings.max_tokens))


class Stages:
    """The same, with the levels that go with each stage.

    Args:
        settings: the stages.
        levels: of each domain.
        parts: of the run.

    Raises:
        ContextError: stages and domains do not go together.
    """

    def __init__(self, settings: ContextSettings, levels: Mapping[str, Sequence[int]], parts: Parts) -> None:
        self._settings = settings
        self._stretch = Stretch(settings, parts.model)
        self._levels = fitting(settings, levels, parts.domains, parts.codec)

    def max_tokens_at(self, step: int) -> int:
        """Of the stage in force."""
        return self._settings.stage_at(step).max_tokens

    def enter(self, step: int | Literal["last"]) -> Mapping[str, Sequence[int]]:
        """Scale as at this step; the levels in play."""
        self._stretch.apply(step)
        return self._levels[self._settings.stages.index(self._settings.stage_at(step))]
