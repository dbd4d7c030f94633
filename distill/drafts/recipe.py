"""A recipe for a draft head: all that its training is, in one TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from serving.engines.base import SettingsNode
from train.general_prompts import PROMPTS
from train.recipe import RecipeError

RECIPES: Path = Path(__file__).with_name("recipes")
"""The shipped ones, each `<name>.toml`."""


class TextSettings(SettingsNode):
    """What the target is asked; its answers are learned from."""

    domains: tuple[str, ...] = Field(min_length=1)
    items_per_domain: int = Field(64, ge=1)
    num_general: int = Field(128, ge=0, le=len(PROMPTS))
    """Prompts of no domain."""
    max_answer_tokens: int = Field(48, ge=2)
    temperature: float = Field(0.7, ge=0)


class HeadRecipe(SettingsNode):
    """A training of one head."""

    source: str = "smollm2"
    """The target, as `tierwise train base` takes it."""
    seed: int = 0
    num_threads: int | None = Field(None, ge=1)
    texts: TextSettings
    draft_vocab_size: int = Field(8192, ge=1)
    fused_layers: tuple[int, int, int] | None = None
    """Behind how many of the target's layers states are taken; vLLM's default places where absent."""
    num_depths: int = Field(5, ge=1, le=16)
    """Guesses that a chain is unrolled to."""
    num_drafts: int = Field(3, ge=1)
    """A round's, in the exported configuration."""
    num_steps: int = Field(1000, ge=1)
    texts_per_step: int = Field(8, ge=1)
    learning_rate: float = Field(6e-4, gt=0)
    """At its height, of AdamW; cosine to a tenth of it."""
    num_warmup_steps: int = Field(20, ge=0)
    max_gradient_norm: float = Field(0.5, gt=0)
    checkpoint_steps: int = Field(50, ge=1)
    cache_mib: int = Field(512, ge=0)
    """For the target's states on disk; what does not fit is computed again at every reading."""

    @model_validator(mode="after")
    def _rounds_are_learned(self) -> Self:
        if self.num_drafts > self.num_depths:
            raise ValueError("a round drafts no deeper than chains are unrolled: raise `num_depths`")
        return self


def load_recipe(name: str) -> HeadRecipe:
    """A shipped recipe by its name, or the one in a file.

    Raises:
        RecipeError: there is none, or it asks for what cannot be.
    """
    path = RECIPES / f"{name}.toml" if (RECIPES / f"{name}.toml").exists() else Path(name)
    try:
        return HeadRecipe.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, IsADirectoryError):
        known = ", ".join(sorted(each.stem for each in RECIPES.glob("*.toml")))
        raise RecipeError(
            f"no recipe {name!r} for a head; shipped are {known}, or name a TOML file"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path} is no TOML: {error}") from None
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise RecipeError(f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
