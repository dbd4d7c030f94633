"""What a student hears in each step: prompts, and answers to each, of the reference, the teacher or itself.

Every draw is a function of the run's seed, the phase and the step, but for what the rotation over domains owes, which a
checkpoint keeps (`plain`): a run that was stopped hears the same again.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from distill.calibration import CalibrationText, Prompt, answered, drawn, general_prompts, referenced
from distill.recipe import PhaseSettings, TaughtRecipe
from distill.served_traffic import served_prompts
from distill.student_loss import Origin
from train.batch import Group
from train.codec import Codec
from train.credit import by_heart
from train.curriculum import Curriculum
from train.domains.base import Domain
from train.general_prompts import PROMPTS
from train.parts import UpdatedSampler
from train.rollouts.rollout import Sampler
from train.seeds import seed_of
from train.transcript import Message


@dataclass(frozen=True, slots=True)
class Speakers:
    """Who answers, in the same tokens."""

    codec: Codec
    teacher: Sampler
    student: UpdatedSampler


@dataclass(frozen=True, slots=True)
class Lesson:
    """A step's texts."""

    groups: tuple[Group, ...]
    """An answer each, called by its origin; in an order in which neighbours begin alike."""
    num_left_out: int
    """Answers to prompts that were too long, or whose domain has no other items than those that are held out."""


class Lessons:
    """Makes them for one phase.

    Args:
        recipe: of the run.
        phase: its name, `kd` or `gkd`.
        settings: of the phase.
        domains: by name.
        speakers: who answers.
        without: prompts that evaluations ask; they are never heard.

    Raises:
        TrafficError: served prompts are asked for and cannot be had.
    """

    def __init__(
        self,
        recipe: TaughtRecipe,
        phase: str,
        settings: PhaseSettings,
        domains: Mapping[str, Domain],
        speakers: Speakers,
        without: Set[str],
    ) -> None:
        self._recipe, self._phase, self._settings = recipe, phase, settings
        self._domains, self._speakers, self._without = domains, speakers, without
        self._own_limits = {domain.name: domain.max_answer_tokens for domain in recipe.domains}
        self._general = general_prompts(len(PROMPTS), seed=recipe.seed)
        texts = recipe.texts
        self._served = served_prompts(texts.served, without=without) if texts.served is not None else []
        self._rotation = Curriculum(
            {domain.name: domain.levels for domain in recipe.domains},
            weights={domain.name: domain.weight for domain in recipe.domains},
            kind="uniform",
            seed=seed_of(recipe.seed, phase),
        )

    def lesson(self, number: int) -> Lesson:
        """Of step `number`, the student speaking as its sampler has it."""
        num = self._settings.answers_per_item
        by_origin: dict[Origin, list[Prompt]] = defaultdict(list)
        coins = random.Random(seed_of(self._recipe.seed, self._phase, "origin", number))
        for prompt in filter(self._fits, self.prompts(number)):
            for place in range(num):
                origin = self._origin(prompt, coins.random(), coins.random())
                by_origin[origin].append(prompt._replace(name=f"{prompt.name}/{place}"))
        groups = [
            by_heart(origin, text.prompt, text.answer)
            for origin in Origin
            for text in self._texts(origin, by_origin[origin], number)
        ]
        groups.sort(key=lambda group: (group.prompt, group.credits[0].token_ids))
        return Lesson(tuple(groups), num * self._settings.items_per_step - len(groups))

    def prompts(self, number: int) -> list[Prompt]:
        """What is asked in a step; the rotation over domains moves on by it."""
        num, texts = self._settings.items_per_step, self._recipe.texts
        draw = random.Random(seed_of(self._recipe.seed, self._phase, "prompts", number))
        general = draw.sample(self._general, min(round(texts.general_share * num), len(self._general)))
        served = draw.sample(self._served, min(round(texts.served_share * num), len(self._served)))
        seed = seed_of(self._recipe.seed, self._phase)
        items = [
            drawn(self._domains[each.domain], each.index, each.level, seed=seed, without=self._without)
            for each in self._rotation.plan(number, num - len(general) - len(served))
        ]
        return [*(prompt for prompt in items if prompt is not None), *general, *served]

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return self._rotation.plain()

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint of the same phase."""
        self._rotation.restore(plain)

    def _origin(self, prompt: Prompt, first: float, second: float) -> Origin:
        if first < self._settings.student_share:
            return Origin.STUDENT
        is_referenced = prompt.item is not None and second < self._settings.reference_share
        return Origin.REFERENCE if is_referenced else Origin.TEACHER

    def _texts(self, origin: Origin, prompts: Sequence[Prompt], number: int) -> list[CalibrationText]:
        speakers = self._speakers
        if origin is Origin.REFERENCE:
            found = list(referenced(prompts, self._domains, speakers.codec))
            longest = self._recipe.texts.max_text_tokens
            return [text for text in found if len(text.token_ids) <= longest]
        is_own = origin is Origin.STUDENT
        return list(
            answered(
                prompts,
                speakers.student if is_own else speakers.teacher,
                speakers.codec,
                temperature=1.0 if is_own else self._settings.teacher_temperature,
                max_tokens=self.max_answer_tokens,
                seed=seed_of(self._recipe.seed, self._phase, "answer", number),
            )
        )

    def max_answer_tokens(self, prompt: Prompt) -> int:
        """What an answer may take."""
        if prompt.item is None:
            return self._recipe.texts.max_general_tokens
        return self._own_limits[prompt.domain] or prompt.item.max_answer_tokens

    def _fits(self, prompt: Prompt) -> bool:
        tokens = self._speakers.codec.prompt([Message("user", prompt.text)])
        return len(tokens) + self.max_answer_tokens(prompt) <= self._recipe.texts.max_text_tokens
