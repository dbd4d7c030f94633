"""What a head's training is begun with, and what its directory has beside `train.run_directory`'s.

texts.json     readings/ until the end     speculator/ at the end, for vLLM     acceptance.json, for `cost-model`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distill.calibration import CalibrationText, Prompt, answered, drawn, general_prompts, held_out_prompts_of
from distill.drafts.recipe import HeadRecipe
from train.codec import Codec
from train.domains import catalog
from train.model.llama import Llama
from train.rollouts.rollout import Sampler
from train.run_directory import RunError

TEXTS_NAME: Final = "texts.json"
READINGS_NAME: Final = "readings"
SPECULATOR_NAME: Final = "speculator"
ACCEPTANCE_NAME: Final = "acceptance.json"


@dataclass(frozen=True, slots=True)
class Target:
    """Whom the head drafts for."""

    model: Llama
    codec: Codec
    sampler: Sampler
    name: str
    """As vLLM is to load it."""


def texts_of(
    recipe: HeadRecipe, target: Target, out: Path, is_stopping: Callable[[], bool] = lambda: False
) -> list[CalibrationText] | None:
    """The target's answers, asked for once; None where that was stopped, which keeps nothing.

    Raises:
        RunError: none has anything to draft.
        UnknownDomainError: the recipe names a domain that is not there.
    """
    kept = out / TEXTS_NAME
    if not kept.exists():
        plain = []
        for text in answers(prompts_of(recipe), recipe, target):
            if is_stopping():
                return None
            if text.drafted:
                plain.append([text.domain, text.prompt, text.answer])
        part = out / f".{TEXTS_NAME}"
        part.write_text(json.dumps(plain), encoding="utf-8")
        part.replace(kept)
    read = json.loads(kept.read_text(encoding="utf-8"))
    if not read:
        raise RunError("the target answers nothing that could be drafted; name other domains")
    return [CalibrationText(domain, tuple(prompt), tuple(answer)) for domain, prompt, answer in read]


def prompts_of(recipe: HeadRecipe) -> list[Prompt]:
    """What the target is asked: items that no evaluation asks, over each domain's levels in turn, and general ones."""
    without = {prompt.text for prompt in held_out(recipe)}
    items = [
        prompt
        for entry in recipe.domains
        for index in range(recipe.texts.items_per_domain)
        if (
            prompt := drawn(
                catalog.get(entry.name),
                index,
                entry.levels[index % len(entry.levels)],
                seed=recipe.seed,
                without=without,
            )
        )
    ]
    return items + general_prompts(recipe.texts.num_general, seed=recipe.seed)


def held_out(recipe: HeadRecipe) -> list[Prompt]:
    """What the head is measured on."""
    return held_out_prompts_of(
        [(catalog.get(entry.name), entry.levels) for entry in recipe.domains], recipe.evaluation.num_items
    )


def answers(
    prompts: list[Prompt], recipe: HeadRecipe, target: Target, *, temperature: float | None = None
) -> Iterator[CalibrationText]:
    """What the target says; at the temperature of the texts where no other is named."""
    texts = recipe.texts
    return answered(
        prompts,
        target.sampler,
        target.codec,
        temperature=texts.temperature if temperature is None else temperature,
        max_tokens=lambda _: texts.max_answer_tokens,
        seed=recipe.seed,
    )


def verifier_name(recipe: HeadRecipe, opened: str) -> str:
    """How an exported head names its target: as the recipe says, or as what was opened, without a path of this machine.

    Args:
        recipe: of the head.
        opened: a version of the registry, a name of the hub, or a path.
    """
    return recipe.verifier or (Path(opened).name if Path(opened).is_absolute() else opened)
