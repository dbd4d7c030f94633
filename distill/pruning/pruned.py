"""The model that is left: some layers or channels of another, as a Llama of its own and as a checkpoint."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from distill.pruning.width import Channels
from train.checkpoints.directory import CHAT_TEMPLATE, TOKENIZER, TOKENIZER_CONFIG
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.llama import Llama
from train.model.shape import LlamaShape
from train.model.weights import save_llama, state_of

GGUF_NAME = "model.gguf"
_IN_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")


def with_layers(model: Llama, kept: Sequence[int]) -> Llama:
    """A copy that has these layers alone, in this order.

    Args:
        model: adapters merged.
        kept: indices of its layers, at least one.

    Raises:
        ValueError: there are none, or the model has no such layers.
    """
    if not kept or not all(0 <= layer < model.shape.num_layers for layer in kept):
        raise ValueError(f"cannot keep layers {list(kept)} of {model.shape.num_layers}; name some of them")
    state = state_of(model)

    def theirs(name: str) -> Tensor:
        found = _IN_LAYER.fullmatch(name)
        return state[name if found is None else f"model.layers.{kept[int(found[1])]}.{found[2]}"]

    return _copied(model, replace(model.shape, num_layers=len(kept)), theirs)


def with_channels(model: Llama, kept: Channels) -> Llama:
    """A copy whose feed-forward layers have these channels alone.

    Args:
        model: adapters merged.
        kept: of each layer, in this order; as many of each, since a Llama has one number for all.

    Raises:
        ValueError: they are not as many, or the model has no such channels.
    """
    num_kept = {len(each) for each in kept}
    num_channels = model.shape.intermediate_size
    is_there = all(0 <= channel < num_channels for each in kept for channel in each)
    if len(kept) != model.shape.num_layers or len(num_kept) != 1 or 0 in num_kept or not is_there:
        raise ValueError(
            f"name as many of {num_channels} channels for each of {model.shape.num_layers} layers"
        )
    state = state_of(model)

    def ours(name: str) -> Tensor:
        found = _IN_LAYER.fullmatch(name)
        if found is None or not found[2].startswith("mlp."):
            return state[name]
        channels = torch.tensor(kept[int(found[1])], device=state[name].device)
        return state[name].index_select(1 if "down_proj" in name else 0, channels)

    return _copied(model, replace(model.shape, intermediate_size=num_kept.pop()), ours)


def _copied(model: Llama, shape: LlamaShape, weight_of: Callable[[str], Tensor]) -> Llama:
    """A model of this shape; `weight_of` has its weights by name."""
    with torch.device("meta"):
        made = Llama(shape)
    weights = {name: weight_of(name).clone() for name in state_of(made)}
    if shape.is_tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    made.load_state_dict(weights, assign=True)
    if shape.is_tied:
        made.lm_head.weight = made.model.embed_tokens.weight
    made.precision = model.precision
    return made.train(model.training)


def write_checkpoint(model: Llama, start: Path, out: Path, *, has_gguf: bool = False) -> None:
    """Write a model in Hugging Face's form, and as one GGUF file in single precision beside it where asked.

    Args:
        model: adapters merged.
        start: the checkpoint whose tokenizer it speaks with.
        out: a directory; made where it is missing.
        has_gguf: whether `model.gguf` is written too.

    Raises:
        CheckpointError: GGUF knows no such tokenizer.
    """
    out.mkdir(parents=True, exist_ok=True)
    save_llama(model, out)
    for name in (TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE):
        if (start / name).exists():
            shutil.copyfile(start / name, out / name)
    if has_gguf:
        convert_to_gguf(out, out / GGUF_NAME)
