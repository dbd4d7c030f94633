"""RoPE scaling, read from and written as Hugging Face has it, and what it does to frequencies."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tests.train.model.test_llama import LINEAR, LLAMA3, YARN
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.model.frequencies import divisors, frequencies
from train.model.rope import RopeScaling, UnsupportedScalingError, read_scaling
from train.model.shape import LlamaShape, UnsupportedModelError
from train.model.weights import load_llama, save_llama

SCALINGS = [
    LINEAR,
    LLAMA3,
    YARN,
    RopeScaling(kind="yarn", factor=4.0, original_max_positions=2048, beta_fast=16.0, attention_factor=1.5),
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_frequencies_are_those_of_transformers(scaling: RopeScaling) -> None:
    """At the sizes of SmolLM2 as well, to the last bits, and attention's factor too."""
    shape = tiny_shape(head_size=64, rope_theta=100_000.0, max_positions=32_768, rope_scaling=scaling)
    theirs, magnitude = ROPE_INIT_FUNCTIONS[scaling.kind](LlamaConfig(**shape.as_config()), "cpu")
    torch.testing.assert_close(frequencies(shape), theirs, rtol=3e-7, atol=0)
    assert scaling.magnitude == pytest.approx(magnitude, rel=1e-12)
    assert divisors(shape).max() == pytest.approx(scaling.factor, rel=1e-6)


@pytest.mark.parametrize("scaling", [None, *SCALINGS], ids=str)
def test_a_checkpoint_keeps_its_scaling(tmp_path: Path, scaling: RopeScaling | None) -> None:
    """What is saved is loaded as it was, and by transformers with the same members."""
    model = tiny_llama(tiny_shape(rope_scaling=scaling), dtype=torch.float32)
    save_llama(model, tmp_path)
    assert load_llama(tmp_path).shape == model.shape
    theirs = LlamaConfig.from_pretrained(tmp_path).to_dict()
    assert LlamaShape.from_config(theirs) == model.shape  # the other spelling


def test_llama3_by_hand() -> None:
    """32 positions before: a pair that turns 4 times in them is left, one that turns once is divided by the factor."""
    scaling = RopeScaling(kind="llama3", factor=8.0, original_max_positions=32)
    theta = 2 * math.pi  # pairs of 1 and 1/2π radians: 32/2π = 5.1 turns and 0.81
    found = divisors(tiny_shape(head_size=4, rope_theta=theta**2, rope_scaling=scaling))
    torch.testing.assert_close(found, torch.tensor([1.0, 8.0]))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"rope_scaling": {"type": "linear", "factor": 1.0}}, None),
        ({"rope_scaling": {"type": "linear", "factor": 3}}, RopeScaling(kind="linear", factor=3.0)),
        (
            {"max_position_embeddings": 99, "rope_parameters": {"rope_type": "yarn", "factor": 2}},
            RopeScaling(kind="yarn", factor=2.0, original_max_positions=99),
        ),
    ],
)
def test_older_and_shorter_spellings(given: dict[str, Any], expected: RopeScaling | None) -> None:
    """`type` is `rope_type`; where the first context is not told, the model's own is meant."""
    assert read_scaling(given) == expected


def test_other_scalings_are_refused_by_name() -> None:
    """What would be computed wrongly is not computed."""
    config = {**tiny_shape().as_config(), "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    with pytest.raises(UnsupportedModelError, match="'dynamic'"):
        LlamaShape.from_config(config)
    with pytest.raises(UnsupportedScalingError, match="truncate=False"):
        read_scaling({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": False}})
