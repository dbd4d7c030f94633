"""A compressed-tensors directory as a model that is computed here: the numbers that its integers stand for."""

from __future__ import annotations

from pathlib import Path

import torch

from distill.quantization import compressed_tensors
from distill.quantization.activations import linear_maps, round_activations
from distill.quantize import with_weights
from train.checkpoints.directory import read_config
from train.model.llama import Llama
from train.model.shape import LlamaShape, UnsupportedModelError
from train.rollouts.in_process import InProcessSampler


def open_quantized(directory: Path) -> tuple[Llama, InProcessSampler]:
    """The model and its sampler, both rounding activations where the directory's type does.

    Raises:
        CheckpointError: it is not whole, or not in this format.
        UnsupportedModelError: another family, or weights that do not fit the configuration.
    """
    rounds_activations = compressed_tensors.kind_of(directory).rounds_activations
    with torch.device("meta"):
        empty = Llama(LlamaShape.from_config(read_config(directory)))
    try:
        model = with_weights(empty, compressed_tensors.read(directory))
    except RuntimeError as error:
        raise UnsupportedModelError(f"{directory}: weights and config.json disagree: {error}") from None
    if not rounds_activations:
        return model, InProcessSampler(model)
    round_activations(model)
    return model, InProcessSampler(model, make_linear=linear_maps(model.shape.vocab_size))
