"""How long an answer may be: what the recipe says of its domain, or the item itself, and with modes what work takes."""

from __future__ import annotations

from train import modes
from train.domains.base import Item
from train.parts import Parts
from train.recipe import Recipe


class AnswerLimits:
    """The limits of a run's items.

    Args:
        recipe: of the run.
        parts: of the run.
    """

    def __init__(self, recipe: Recipe, parts: Parts) -> None:
        self._of_domain = {domain.name: domain.max_answer_tokens for domain in recipe.domains}
        self._has_modes = recipe.modes is not None
        self._parts = parts

    def __call__(self, item: Item) -> int:
        """The most tokens of an answer to it."""
        if said := self._of_domain[item.domain]:
            return said
        if not self._has_modes:
            return item.max_answer_tokens
        return modes.max_tokens(self._parts.codec, self._parts.domains[item.domain], item)
