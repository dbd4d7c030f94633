"""A student's recipe: all that its making is, in one TOML file; `distill.trainer` says what becomes of it.

Same recipe, same base, same machine: the same student, bit for bit. It is a frozen tree like `train.recipe`, and says
domains the same way, as a list or as a selection (`train.domain_selection`). What it shares with exits, which a whole
model teaches too (`distill.exit_recipe`), is `TaughtRecipe`; with draft heads (`distill.drafts.recipe`), `BasedRecipe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import Field, model_validator

from serving.engines.base import SettingsNode
from train.general_prompts import PROMPTS
from train.recipe import BaseSettings, DomainSettings, EvaluationSettings, ScratchSettings, Share, load_tree

RECIPES: Path = Path(__file__).with_name("recipes")
"""The shipped ones, each `<name>.toml`."""

SERVED: Final = "texts.served"
"""The dotted path of what was served."""

Divergence = Literal["forward_kl", "reverse_kl", "jsd", "total_variation"]


class RunSettings(SettingsNode):
    """A run of `tierwise train`, as its last checkpoint has it."""

    type: Literal["run"]
    path: Path


class EngineSettings(SettingsNode):
    """A server that says log-probabilities: llama.cpp's or vLLM's. It tells its likeliest tokens, not all of them."""

    url: str = Field(pattern=r"^https?://[^/\s]+$")
    model: str | None = None
    """What stands in a request's `model`; the first that the server lists where absent."""
    num_told: int = Field(20, ge=1)
    """Tokens a place; vLLM tells no more than its `--max-logprobs`."""


class PruneSettings(SettingsNode):
    """Which of the base's layers the student begins with."""

    num_layers: int | None = Field(None, ge=1)
    """So many, found by measurement (`distill.pruning.depth`)."""
    kept_layers: tuple[int, ...] | None = None
    """These, rising."""
    beam: int = Field(1, ge=1)
    """1: greedy removal."""
    criterion: Literal["divergence", "acceptance"] = "divergence"
    num_items: int = Field(24, ge=1)
    """Of all domains together, with reference answers, that removals are measured on."""
    num_general: int = Field(8, ge=0, le=len(PROMPTS))
    """Prompts of no domain, with the base's greedy answers."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.num_layers is None) == (self.kept_layers is None):
            raise ValueError("say either prune.num_layers, to have them found, or prune.kept_layers")
        kept = self.kept_layers
        if kept is not None and (not kept or list(kept) != sorted(set(kept)) or kept[0] < 0):
            raise ValueError("prune.kept_layers names layers, rising from 0, each once")
        return self


class TextSettings(SettingsNode):
    """What is asked beside items of domains, and how long texts are."""

    general_share: Share = 0.1
    """Of a step's prompts: nobody's domain."""
    max_general_tokens: int = Field(48, ge=1)
    """Of an answer to these, and to served ones."""
    served: Path | None = None
    """What `tierwise ledger export --prompts` or `tierwise route prompts` wrote (`distill.served_traffic`), as seen
    from the recipe's file; `served_share` says how much of it is asked."""
    served_share: Share = 0.0
    max_text_tokens: int = Field(1024, ge=16)
    """A prompt whose answer may take it beyond is left out."""

    @model_validator(mode="after")
    def _shares_can_be_had(self) -> Self:
        if self.general_share + self.served_share > 1:
            raise ValueError("texts.general_share and texts.served_share are more than all; lower one")
        if self.served_share and self.served is None:
            raise ValueError("texts.served_share is set; name the export as texts.served")
        return self


class PhaseSettings(SettingsNode):
    """A phase of distillation: whose answers are read, and what of the teacher is learned there."""

    num_steps: int = Field(100, ge=0)
    items_per_step: int = Field(32, ge=1)
    """Prompts."""
    answers_per_item: int = Field(1, ge=1)
    """Each by a lot of its own as to whose it is; a prompt is computed once for all of them."""
    student_share: Share = 0.0
    """λ of arXiv:2306.13649: so many answers are the student's own, drawn at temperature 1 as it is then."""
    reference_share: Share = 0.5
    """Of the other answers to items: the domain's own; the rest are the teacher's."""
    teacher_temperature: float = Field(1.0, ge=0)
    """At which its answers are drawn; 0 is greedy."""
    divergence: Divergence = "forward_kl"
    beta: float = Field(0.5, gt=0, lt=1)
    """Of `jsd`: towards 0 like forward, towards 1 like reverse divergence."""
    cross_entropy_weight: float = Field(0.0, ge=0)
    """Of −ln q of reference answers, beside the divergence."""
    hidden_weight: float = Field(0.0, ge=0)
    """Of the distance between states of student and teacher behind each layer that was kept (`distill.hidden`)."""
    learning_rate: float = Field(2e-4, gt=0)
    """At its height, of AdamW; cosine to a tenth of it."""
    num_warmup_steps: int = Field(10, ge=0)
    max_gradient_norm: float = Field(1.0, gt=0)


class BasedRecipe(SettingsNode):
    """Of whatever is made of a model that is there, on domains."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    about: str
    seed: int = 0
    num_threads: int | None = Field(None, gt=0)
    """Torch's own choice where absent."""
    base: Annotated[ScratchSettings | BaseSettings | RunSettings, Field(discriminator="type")]
    """Whose layers a student or exits begin with, who teaches where `teacher` is absent, whom a head drafts for."""
    domains: tuple[DomainSettings, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _domains_stand_once(self) -> Self:
        names = [domain.name for domain in self.domains]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"domain {again!r} stands twice; give it one entry and its levels there")
        return self


class TaughtRecipe(BasedRecipe):
    """Of whatever learns what a whole model says."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """Of products, the teacher's too; weights that move stay in single precision (`train.model.precision`)."""
    teacher: EngineSettings | None = None
    """An engine that teaches in place of the whole base; of the same tokens."""
    texts: TextSettings = TextSettings()
    micro_batch_tokens: int = Field(2048, ge=64)
    """Computed at once, which bounds memory; what texts begin with alike counts once."""
    checkpoint_every_steps: int = Field(20, ge=1)
    kd: PhaseSettings = PhaseSettings()
    """On answers of references and teacher."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Of held-out items; `every_steps` counts those of all phases."""

    @model_validator(mode="after")
    def _texts_fit(self) -> Self:
        if self.texts.max_text_tokens > self.micro_batch_tokens:
            raise ValueError(
                "a text is computed at once: raise micro_batch_tokens, or lower texts.max_text_tokens"
            )
        return self

    @model_validator(mode="after")
    def _sampler_is_there(self) -> Self:
        if self.evaluation.sampler == "int8" and self.precision != "float32":
            raise ValueError("sampling in eight bits is made for float32; set evaluation.sampler to 'float'")
        return self


class StudentRecipe(TaughtRecipe):
    """The whole tree."""

    prune: PruneSettings
    trained: Literal["layers", "all"] = "layers"
    """`layers`: those that are kept, and the last norm; the embedding stays the base's, and the difference small."""
    gkd: PhaseSettings = PhaseSettings(student_share=1.0, divergence="jsd")
    """On policy."""

    @model_validator(mode="after")
    def _engines_tell_no_states(self) -> Self:
        if self.teacher is not None and (self.kd.hidden_weight or self.gkd.hidden_weight):
            raise ValueError(
                "an engine does not tell its states: set hidden_weight to 0, or leave `teacher` out"
            )
        return self


Taught = TypeVar("Taught", bound=TaughtRecipe)


def load_recipe(name_or_path: str, overrides: Mapping[str, object] | None = None) -> StudentRecipe:
    """A shipped recipe by its name, or a file that ends in `.toml`, with members changed by dotted path.

    Raises:
        RecipeError: there is none, or it says what cannot be.
    """
    return load_taught(StudentRecipe, name_or_path, overrides or {})


def load_taught(kind: type[Taught], name_or_path: str, said: Mapping[str, object]) -> Taught:
    """The same of any kind."""
    recipe = load_tree(kind, RECIPES, name_or_path, said)
    served = recipe.texts.served
    if served is None or SERVED in said:
        return recipe
    path = Path(name_or_path) if name_or_path.endswith(".toml") else RECIPES / name_or_path
    texts = recipe.texts.model_copy(update={"served": (path.parent / served).resolve()})
    return recipe.model_copy(update={"texts": texts})
