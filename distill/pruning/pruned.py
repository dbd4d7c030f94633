"""The model that is left: some layers of another, renumbered, as a Llama of its own and as a checkpoint."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from train.checkpoints.directory import CHAT_TEMPLATE, TOKENIZER, TOKENIZER_CONFIG
from train.checkpoints.to_gguf import convert_to_gguf
from train.model.llama import Llama
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
    shape = replace(model.shape, num_layers=len(kept))
    with torch.device("meta"):
        pruned = Llama(shape)
    state = state_of(model)
    weights = {}
    for name in state_of(pruned):
        found = _IN_LAYER.fullmatch(name)
        theirs = name if found is None else f"model.layers.{kept[int(found[1])]}.{found[2]}"
        weights[name] = state[theirs].clone()
    if shape.is_tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    pruned.load_state_dict(weights, assign=True)
    if shape.is_tied:
        pruned.lm_head.weight = pruned.model.embed_tokens.weight
    pruned.precision = model.precision
    return pruned.train(model.training)


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
