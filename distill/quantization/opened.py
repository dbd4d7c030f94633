"""A compressed-tensors directory as a model that is computed here: the numbers that its integers stand for."""

from __future__ import annotations

from pathlib import Path

import torch

from distill.quantization import compressed_tensors
from distill.quantization.activations import linear_maps, round_activations
from distill.quantize import with_weights
from train.checkpoints.directory import read_config
from train.model.llama import Llama
from train.model.shape import LlamaShape
from train.rollouts.in_process import InProcessSampler


def open_quantized(directory: Path) -> tuple[Llama, InProcessSampler]:
    """The model and its sampler, both rounding activations where the directory's type does.

    Raises:
        CheckpointError: it is not whole, or not in this format.
        UnsupportedModelError: another family.
    """
    weights = compressed_tensors.read(directory)
    config = read_config(directory)
    with torch.device("meta"):
        empty = Llama(LlamaShape.from_config(config))
    model = with_weights(empty, weights)
    [group] = config["quantization_config"]["config_groups"].values()
    if not group["input_activations"]:
        return model, InProcessSampler(model)
    round_activations(model)
    return model, InProcessSampler(model, make_linear=linear_maps(model.shape.vocab_size))
