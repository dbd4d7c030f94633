"""A recipe for a draft head: all that its training is, in one TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from distill.recipe import RECIPES, BasedRecipe
from serving.engines.base import SettingsNode
from train.general_prompts import PROMPTS
from train.recipe import load_tree


class TextSettings(SettingsNode):
    """What the target is asked; its answers are learned from."""

    items_per_domain: int = Field(64, ge=1)
    num_general: int = Field(128, ge=0, le=len(PROMPTS))
    """Prompts of no domain."""
    max_answer_tokens: int = Field(48, ge=2)
    temperature: float = Field(0.7, ge=0)


class AcceptanceSettings(SettingsNode):
    """What the exported head is measured on: the target's answers to held-out items."""

    num_items: int = Field(2, ge=1)
    """Of each domain."""
    temperature: float = Field(1.0, ge=0)
    """Of both."""


class HeadRecipe(BasedRecipe):
    """A training of one head; `base` is its target."""

    verifier: str | None = None
    """As the exported config.json names the target: what whoever serves the head loads. Absent: the version of the
    registry or the name that `base` means; of files on this machine the directory's name alone."""
    texts: TextSettings = TextSettings()
    draft_vocab_size: int = Field(8192, ge=1)
    fused_layers: tuple[int, int, int] | None = None
    """Behind how many of the target's layers states are taken; vLLM's default places where absent."""
    num_depths: int = Field(5, ge=1, le=16)
    """Guesses that a chain is unrolled to."""
    num_drafts: int = Field(3, ge=1)
    """A round's, in the exported configuration and in the evaluation."""
    num_steps: int = Field(1000, ge=1)
    texts_per_step: int = Field(8, ge=1)
    learning_rate: float = Field(6e-4, gt=0)
    """At its height, of AdamW; cosine to a tenth of it."""
    num_warmup_steps: int = Field(20, ge=0)
    max_gradient_norm: float = Field(0.5, gt=0)
    checkpoint_every_steps: int = Field(50, ge=1)
    cache_mib: int = Field(512, ge=0)
    """For the target's states on disk; what does not fit is computed again at every reading."""
    evaluation: AcceptanceSettings = AcceptanceSettings()

    @model_validator(mode="after")
    def _rounds_are_learned(self) -> Self:
        if self.num_drafts > self.num_depths:
            raise ValueError("a round drafts no deeper than chains are unrolled: raise `num_depths`")
        return self


def load_recipe(name_or_path: str, overrides: Mapping[str, object] | None = None) -> HeadRecipe:
    """A shipped recipe by its name, or a file that ends in `.toml`, with members changed by dotted path.

    Raises:
        RecipeError: there is none, or it asks for what cannot be.
    """
    return load_tree(HeadRecipe, RECIPES, name_or_path, overrides or {})
