"""A recipe: all that a run is, in one TOML file. Same recipe, same base, same machine kind: same weights."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from serving.engines.base import SettingsNode
from train.context import ContextSettings
from train.general_prompts import PROMPTS, QUESTIONS
from train.losses import Objective

RECIPES: Path = Path(__file__).with_name("recipes")
"""The shipped ones, each `<name>.toml`."""

Share = Annotated[float, Field(ge=0, le=1)]
Tree = TypeVar("Tree", bound=SettingsNode)


class RecipeError(Exception):
    """A recipe cannot be read, or asks for what cannot be; the message names the remedy."""


class ScratchSettings(SettingsNode):
    """A small Llama with random weights and a vocabulary of characters: learns in minutes, proves the loop."""

    type: Literal["scratch"]
    num_layers: int = Field(4, ge=1)
    width: int = Field(128, ge=16)
    num_heads: int = Field(4, ge=1)
    max_tokens: int = Field(256, ge=16)
    """Context."""


class BaseSettings(SettingsNode):
    """A base or a policy of the registry, or a directory in Hugging Face's form."""

    type: Literal["artifact"]
    source: str = "smollm2"


class AdaptSettings(SettingsNode):
    """Which weights move."""

    method: Literal["all", "top_layers", "lora"] = "top_layers"
    num_layers: int = Field(10, ge=1)
    """Of `top_layers`: the last so many. Gradients stop below them."""
    rank: int = Field(16, ge=1)
    """Of `lora`."""
    alpha: float = Field(32.0, gt=0)


class DomainSettings(SettingsNode):
    """A domain of the run."""

    name: str
    levels: tuple[int, ...] = (0, 1)
    """The curriculum moves among them."""
    weight: float = Field(1.0, gt=0)
    max_answer_tokens: int | None = Field(None, gt=0)
    """The item's own where absent."""


class SftSettings(SettingsNode):
    """Learning reference answers by heart, so that there is something to reinforce."""

    num_steps: int = Field(60, ge=0)
    items_per_step: int = Field(14, ge=1)
    learning_rate: float = Field(2e-4, gt=0)
    num_warmup_steps: int = Field(5, ge=0)


class ReplaySettings(SettingsNode):
    """The base's own words to prompts of no domain, kept by heart (`train.replay`)."""

    share: Share = 0.1
    """Of a step's prompts: so many are heard beside them, in both phases."""
    num_prompts: int = Field(256, ge=1, le=len(PROMPTS))
    num_questions: int = Field(0, ge=0, le=len(QUESTIONS))
    """Beside them, with short answers, whose tokens count as an answer's."""
    max_answer_tokens: int = Field(48, ge=1)
    token_weight: float = Field(0.25, gt=0)
    """Of each of its tokens in learning by heart, where a token of an answer is 1: its answers are longer."""
    rl_weight: float = Field(0.1, gt=0)
    """Of its cross-entropy beside the policy's loss, in reinforcement."""


class SetbackSettings(SettingsNode):
    """Second tries on the policy's own failures (`train.setbacks`)."""

    share: Share = 0.0
    """Of a step's groups: at most so many are second tries."""
    wrong_to_right: float = Field(1.0, ge=0)
    right_to_wrong: float = Field(1.0, ge=0)


class ConflictSettings(SettingsNode):
    """Projection of domains' gradients where they oppose (`train.conflict`)."""

    is_measured: bool = False
    cosine: float = Field(-0.1, ge=-1, le=0)
    """Smoothed cosines below it are a conflict."""
    is_projected: bool = False


class CriticSettings(SettingsNode):
    """Values of single tokens in place of the group's mean, for domains with long rollouts (`train.critic`)."""

    width: int = Field(128, ge=0)
    """Of the layer between states and value; 0: a linear head."""
    discount: float = Field(1.0, gt=0, le=1)
    """γ, for each sampled token."""
    gae_trace: float = Field(0.95, ge=0, le=1)
    """λ of the advantages."""
    return_trace: float = Field(1.0, ge=0, le=1)
    """λ of the returns that values are taught; 1: the reward itself, which the critic's own errors do not touch."""
    value_clip: float = Field(0.2, gt=0)
    """In deviations of returns: beyond it a value gains nothing by moving on in one step."""
    num_updates: int = Field(4, ge=1)
    """Of the head in each step, on the same states."""
    learning_rate: float = Field(1e-3, gt=0)
    num_warmup_steps: int = Field(5, ge=0)
    """Of reinforcement: in the first so many only the critic learns."""


class RlSettings(SettingsNode):
    """Reinforcement."""

    num_steps: int = Field(100, ge=0)
    groups_per_step: int = Field(8, ge=1)
    rollouts_per_group: int = Field(8, ge=2)
    max_rollout_tokens: int = Field(1024, ge=16)
    """Of a rollout with tools, given and sampled: no turn is begun beyond."""
    max_staleness: int = Field(0, ge=0)
    """Policy versions; rollouts of older weights are refused (`train.staleness`)."""
    temperature: float = Field(1.0, gt=0)
    sampler: Literal["float", "int8"] = "float"
    """What answers are drawn from: the model itself, or its weights and activations in eight bits (`model.linear`), a
    policy close to it whose step is a fifth shorter at 135 million weights; `cispo` takes what lies between them."""
    rollouts_url: str | None = Field(None, pattern=r"^https?://[^/\s]+$")
    """Of a vLLM server that answers are drawn from, adapters pushed to it (`rollouts.vllm`); absent: this process."""
    objective: Objective = Objective.DR_GRPO
    clip_low: float = Field(0.2, ge=0, lt=1)
    clip_high: float = Field(0.28, ge=0)
    learning_rate: float = Field(1e-5, gt=0)
    num_warmup_steps: int = Field(5, ge=0)
    reference_weight: float = Field(0.0, ge=0)
    reference_reset_steps: int | None = Field(None, gt=0)
    """The reference becomes the policy as it is, every so many steps; absent: never."""
    entropy_band: tuple[float, float] | None = None
    """Nats a token."""
    is_scaled_by_domain: bool = True
    curriculum: Literal["learnability", "uniform"] = "learnability"
    exploration: Literal["fixed", "uniform", "active"] = "fixed"
    """`active`: temperature and wording by what is uncertain and new (`train.exploration`)."""
    exploration_temperatures: tuple[float, float] = (0.8, 1.2)
    """The lowest and the highest, where exploration is not `fixed`."""
    setbacks: SetbackSettings = SetbackSettings()
    conflict: ConflictSettings = ConflictSettings()
    critic: CriticSettings | None = None
    """Absent: the group's mean is the baseline."""


class ModeSettings(SettingsNode):
    """Answers begin with a mode, `direct` or `work` (`train.modes`)."""

    direct_bonus: float = Field(0.05, ge=0)
    """In score: what a direct answer earns beside its verdict; work pays where it raises the chance by more."""
    forced_steps: int = Field(50, ge=0)
    """Of reinforcement: in the first so many, each group has half of its answers in each mode."""


class EvaluationSettings(SettingsNode):
    """Items that training never sees."""

    num_items: int = Field(32, ge=1)
    """Of each domain."""
    every_steps: int = Field(0, ge=0)
    """Of reinforcement; 0: before and after each phase alone."""
    num_samples: int = Field(1, ge=1)
    """At temperature 1, beside the greedy answer."""
    sampler: Literal["float", "int8"] = "float"
    """As `rl.sampler`; what is released are the weights themselves, so by default they are what is judged."""


class Recipe(SettingsNode):
    """The whole tree."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    about: str
    seed: int = 0
    num_threads: int | None = Field(None, gt=0)
    """Of the learner; all cores where absent."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the policy learns and answers. Runs are the same to the bit on `cpu` alone."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of products; weights that move stay in single precision (`train.model.precision`)."""
    base: Annotated[ScratchSettings | BaseSettings, Field(discriminator="type")]
    adapt: AdaptSettings = AdaptSettings()
    domains: tuple[DomainSettings, ...] = Field(min_length=1)
    micro_batch_tokens: int = Field(2048, ge=64)
    checkpoint_every_steps: int = Field(10, ge=1)
    sft: SftSettings = SftSettings()
    rl: RlSettings = RlSettings()
    modes: ModeSettings | None = None
    """Absent: answers have none."""
    context: ContextSettings | None = None
    """Absent: positions stay as the base has them."""
    replay: ReplaySettings | None = None
    """Absent: nothing holds the policy to how the base talks."""
    evaluation: EvaluationSettings = EvaluationSettings()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [domain.name for domain in self.domains]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"domain {name!r} stands twice; give it one entry and its levels there")
        return self

    @model_validator(mode="after")
    def _sampler_is_there(self) -> Self:
        if self.rl.sampler == "int8" and (self.device, self.precision) != ("cpu", "float32"):
            raise ValueError("sampling in eight bits is made for a CPU in float32; set rl.sampler to 'float'")
        return self

    @model_validator(mode="after")
    def _rollouts_can_be_drawn_from_an_engine(self) -> Self:
        """vLLM takes adapters on a checkpoint, and says log-probabilities as they were before temperature."""
        if self.rl.rollouts_url is None:
            return self
        for is_met, wanted in (
            (isinstance(self.base, BaseSettings), "a base of type `artifact`"),
            (self.adapt.method == "lora", '`adapt.method = "lora"`'),
            (self.rl.temperature == 1, "temperature 1"),
            (self.rl.exploration == "fixed", "fixed exploration: temperature 1"),
            (self.replay is None, "no `replay`, which is drawn at another temperature"),
            (self.context is None, "no `context`: the server has positions as the base has them"),
        ):
            if not is_met:
                raise ValueError(f"rl.rollouts_url needs {wanted}; change that, or leave the URL out")
        return self

    @property
    def sha256(self) -> str:
        """Of all that it resolves to."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def load_recipe(name_or_path: str, *, overrides: dict[str, object] | None = None) -> Recipe:
    """A shipped recipe by its name, or a file.

    Args:
        name_or_path: `r2`, or a path that ends in `.toml`.
        overrides: members by dotted path (`rl.num_steps`), as on the command line.

    Raises:
        RecipeError: there is no such file, or it says what cannot be.
    """
    return load_tree(Recipe, RECIPES, name_or_path, overrides or {})


def load_tree(kind: type[Tree], directory: Path, name_or_path: str, overrides: Mapping[str, object]) -> Tree:
    """The same for a recipe of any kind whose shipped ones are in `directory`; `domains` may be a selection."""
    path = Path(name_or_path) if name_or_path.endswith(".toml") else directory / f"{name_or_path}.toml"
    try:
        tree = tomllib.loads(path.read_text())
    except FileNotFoundError:
        shipped = ", ".join(sorted(each.stem for each in directory.glob("*.toml")))
        raise RecipeError(
            f"no recipe {name_or_path!r}; shipped are {shipped}, or name a .toml file"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: {error}") from None
    for dotted, value in overrides.items():
        *parents, last = dotted.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    try:
        if isinstance(tree.get("domains"), dict):
            from train.domain_selection import AuditedSettings, selected

            tree["domains"] = selected(AuditedSettings.model_validate(tree["domains"]))
        return kind.model_validate(tree)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise RecipeError(f"{path}: {where}: {fault['msg'].removeprefix('Value error, ')}") from None
