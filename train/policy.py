"""Puts a recipe's policy together: base or random weights, what of them moves, its codec and its sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from train.codec import CharacterCodec, ChatCodec, Codec
from train.model.linear import FloatLinear, Int8Linear, LinearMap
from train.model.llama import Llama
from train.model.lora import add_lora
from train.model.policy import LlamaPolicy
from train.model.shape import LlamaShape
from train.model.trainable import train_all, train_top_layers
from train.model.weights import load_llama
from train.recipe import AdaptSettings, Recipe, RecipeError, ScratchSettings
from train.rollouts.in_process import InProcessSampler
from train.seeds import seed_of

NUM_SLOTS: Final = 128
LINEAR_MAPS: Final[Mapping[str, Callable[[Tensor], LinearMap]]] = {"float": FloatLinear, "int8": Int8Linear}
"""By `rl.sampler`, and by `evaluation.sampler`."""
PRECISIONS: Final[Mapping[str, torch.dtype | None]] = {"float32": None, "bfloat16": torch.bfloat16}
"""Of products, by the recipe's `precision`; None: that of the weights."""
MAX_CACHE_BYTES: Final[Mapping[str, int]] = {"cpu": 2 << 30, "cuda": 16 << 30}
"""Of the sampler's keys and values, by device."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What learns and speaks."""

    model: LlamaPolicy
    sampler: InProcessSampler
    codec: Codec
    base: Path | None
    """The directory that it came from; None for random weights."""
    make_evaluator: Callable[[], InProcessSampler] | None
    """As `parts.Parts`."""


def build_policy(recipe: Recipe, find_base: Callable[[str], Path], *, num_slots: int = NUM_SLOTS) -> Policy:
    """The policy that a run of `recipe` starts from.

    Args:
        recipe: what to build.
        find_base: a directory in Hugging Face's form for a `source`.
        num_slots: answers that are sampled at once.

    Raises:
        RecipeError: it asks for a device that this machine does not have.
    """
    if recipe.device == "cuda" and not torch.cuda.is_available():
        raise RecipeError(
            "the recipe asks for a GPU and torch finds none; set device to 'cpu', or install torch built for CUDA"
        )
    if isinstance(recipe.base, ScratchSettings):
        directory, codec = None, CharacterCodec()
        model: Llama = scratch_llama(recipe.base, codec.num_tokens, recipe.seed)
        policy_codec: Codec = codec
    else:
        directory = find_base(recipe.base.source)
        model, policy_codec = load_llama(directory), ChatCodec(directory)
    adapt(model, recipe.adapt, recipe.seed)
    model.to(recipe.device)
    model.precision = PRECISIONS[recipe.precision]
    policy = LlamaPolicy(model, temperature=recipe.rl.temperature)
    kind, judged = recipe.rl.sampler, recipe.evaluation.sampler
    make_sampler = partial(
        InProcessSampler, model, num_slots=num_slots, max_cache_bytes=MAX_CACHE_BYTES[recipe.device]
    )
    return Policy(
        policy,
        make_sampler(make_linear=LINEAR_MAPS[kind]),
        policy_codec,
        directory,
        partial(make_sampler, make_linear=LINEAR_MAPS[judged]) if judged != kind else None,
    )


def adapt(model: Llama, settings: AdaptSettings, seed: int) -> None:
    """Mark what moves."""
    if settings.method == "all":
        train_all(model)
    elif settings.method == "top_layers":
        train_top_layers(model, settings.num_layers)
    else:
        add_lora(model, rank=settings.rank, alpha=settings.alpha, seed=seed_of(seed, "lora"))


def scratch_llama(settings: ScratchSettings, num_tokens: int, seed: int) -> Llama:
    """A small Llama, initialised as GPT-2 is: normal, 0.02, the maps into the residual stream less by its depth."""
    shape = LlamaShape(
        vocab_size=num_tokens,
        hidden_size=settings.width,
        intermediate_size=4 * settings.width * 2 // 3 // 8 * 8,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        num_kv_heads=settings.num_heads,
        head_size=settings.width // settings.num_heads,
        norm_eps=1e-5,
        rope_theta=10_000.0,
        max_positions=settings.max_tokens,
        is_tied=True,
    )
    model = Llama(shape)
    generator = torch.Generator().manual_seed(seed_of(seed, "weights"))
    deeper = (2 * settings.num_layers) ** -0.5
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                spread = 0.02 * (deeper if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0)
                weight.normal_(0.0, spread, generator=generator)
    return model
