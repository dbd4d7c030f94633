"""The directory of a head's training: what it was begun with, and what its target said.

recipe.json     texts.json     readings/     checkpoints/     metrics.jsonl     speculator/ at the end, for vLLM
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distill.calibration import CalibrationText, answered, domain_prompts, general_prompts
from distill.drafts.recipe import HeadRecipe
from train.codec import Codec
from train.domains import catalog
from train.model.llama import Llama
from train.rollouts.rollout import Sampler
from train.run_directory import RunError

RECIPE_NAME: Final = "recipe.json"
TEXTS_NAME: Final = "texts.json"
METRICS_NAME: Final = "metrics.jsonl"
CHECKPOINTS_NAME: Final = "checkpoints"
READINGS_NAME: Final = "readings"
SPECULATOR_NAME: Final = "speculator"


@dataclass(frozen=True, slots=True)
class Target:
    """Whom the head drafts for."""

    model: Llama
    codec: Codec
    sampler: Sampler
    name: str
    """As vLLM is to load it."""


def begin(recipe: HeadRecipe, out: Path, *, is_resumed: bool) -> None:
    """Lay down the recipe, or see that it is the one of before.

    Raises:
        RunError: there is a run already, none to resume, or one of another recipe.
    """
    kept = out / RECIPE_NAME
    if kept.exists() != is_resumed:
        raise RunError(
            f"{out} holds no run to resume; leave --resume out to begin one"
            if is_resumed
            else f"{out} holds a run already; go on with it by --resume, or name another directory"
        )
    if is_resumed and HeadRecipe.model_validate_json(kept.read_text(encoding="utf-8")) != recipe:
        raise RunError(f"{out} was begun with another recipe, which {kept} has; resume with that one")
    out.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(recipe.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")


def texts_of(recipe: HeadRecipe, target: Target, out: Path) -> list[CalibrationText]:
    """The target's answers, asked for once.

    Raises:
        RunError: none has anything to draft.
        UnknownDomainError: the recipe names a domain that is not there.
    """
    kept, asked = out / TEXTS_NAME, recipe.texts
    if not kept.exists():
        domains = [catalog.get(name) for name in asked.domains]
        prompts = domain_prompts(domains, asked.items_per_domain, seed=recipe.seed)
        found = answered(
            prompts + general_prompts(asked.num_general, seed=recipe.seed),
            target.sampler,
            target.codec,
            temperature=asked.temperature,
            max_tokens=lambda _: asked.max_answer_tokens,
            seed=recipe.seed,
        )
        plain = [[text.domain, text.prompt, text.answer] for text in found if text.drafted]
        part = out / f".{TEXTS_NAME}"
        part.write_text(json.dumps(plain), encoding="utf-8")
        part.replace(kept)
    read = json.loads(kept.read_text(encoding="utf-8"))
    if not read:
        raise RunError("the target answers nothing that could be drafted; name other domains")
    return [CalibrationText(domain, tuple(prompt), tuple(answer)) for domain, prompt, answer in read]


def keep_lines(path: Path, num: int) -> None:
    """Drop what no checkpoint has seen: it is done again."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:num]
        path.write_text("".join(lines), encoding="utf-8")
