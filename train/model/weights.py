"""A Llama from a directory of safetensors, and back into one."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from train.checkpoints.directory import read_config, read_tensors
from train.model.llama import Llama
from train.model.shape import LlamaShape, UnsupportedModelError


def load_llama(directory: Path, *, dtype: torch.dtype = torch.float32) -> Llama:
    """The model in a checkpoint's directory.

    Raises:
        CheckpointError: files are missing or damaged.
        UnsupportedModelError: another family, or weights that do not fit the configuration.
    """
    shape = LlamaShape.from_config(read_config(directory))
    with torch.device("meta"):
        model = Llama(shape)
    weights = {name: tensor.to(dtype) for name, tensor in read_tensors(directory).items()}
    if shape.is_tied:
        weights["lm_head.weight"] = weights.get("model.embed_tokens.weight", torch.empty(0))
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise UnsupportedModelError(f"{directory}: weights and config.json disagree: {error}") from None
    if shape.is_tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def state_of(model: Llama) -> dict[str, Tensor]:
    """The weights as a checkpoint names them, detached; a tied output matrix is left out, so that it stays tied."""
    return {
        name: tensor.detach()
        for name, tensor in model.state_dict().items()
        if not (model.shape.is_tied and name == "lm_head.weight")
    }


def save_llama(model: Llama, directory: Path) -> None:
    """Write `model.safetensors` and `config.json` into an existing directory; the tokenizer is the caller's."""
    weights = {name: tensor.contiguous() for name, tensor in state_of(model).items()}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    config = {**model.shape.as_config(), "torch_dtype": str(next(iter(weights.values())).dtype)[6:]}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
