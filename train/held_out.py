"""A run's evaluations: what its policy can do now on the items that it never trains on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from train import modes
from train.answer_limits import AnswerLimits
from train.domains.base import Item
from train.evaluate import Answer, Evaluation, evaluate, held_out
from train.mode_scores import ModeScores, score_modes
from train.parts import Parts
from train.recipe import Recipe
from train.shown_answers import shown_answers
from train.transcript import answered


class HeldOut:
    """The held-out items of a run's domains, always the same, and what the policy scores on them.

    Args:
        recipe: of the run.
        parts: of the run.
    """

    def __init__(self, recipe: Recipe, parts: Parts) -> None:
        self._recipe = recipe
        self._parts = parts
        self.max_tokens = AnswerLimits(recipe, parts)
        """Of an answer to an item."""

    @property
    def num_items(self) -> int:
        """Of all domains."""
        return self._recipe.evaluation.num_items * len(self._recipe.domains)

    def measure(self, policy_version: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Metrics of the weights as they are, which have this version, and some of the answers for people."""
        shown: list[dict[str, Any]] = []
        text = self._parts.codec.text
        found = self._evaluate(policy_version, lambda answers: shown.extend(shown_answers(answers, text)))
        metrics: dict[str, Any] = {"greedy": found.greedy.mean, "evaluation": found.plain()}
        if found.sampled is not None:
            metrics["sampled"] = found.sampled.mean
        if self._recipe.modes is not None:
            metrics["modes"] = [asdict(score) for score in self.mode_scores(policy_version)]
        return metrics, shown

    def mode_scores(self, policy_version: int) -> list[ModeScores]:
        """What each mode is worth, by domain and level."""
        parts = self._parts
        return score_modes(
            self._items(),
            sampler=parts.evaluator(policy_version),
            codec=parts.codec,
            pool=parts.pool,
            max_tokens=self.max_tokens,
        )

    def _evaluate(self, policy_version: int, on_answers: Callable[[Sequence[Answer]], None]) -> Evaluation:
        parts = self._parts
        return evaluate(
            self._items(),
            domains=parts.domains,
            sampler=parts.evaluator(policy_version),
            codec=parts.codec,
            pool=parts.pool,
            max_tokens=self.max_tokens,
            num_samples=self._recipe.evaluation.num_samples,
            read=answered if self._recipe.modes is None else modes.read,
            on_answers=on_answers,
        )

    def _items(self) -> dict[str, list[Item]]:
        num = self._recipe.evaluation.num_items
        return {
            domain.name: held_out(self._parts.domains[domain.name], domain.levels, num)
            for domain in self._recipe.domains
        }
