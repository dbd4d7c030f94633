"""The rotary frequencies of a model, scaled as its shape says; in single precision, as transformers computes them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from train.model.rope import RopeScaling
from train.model.shape import LlamaShape


def frequencies(shape: LlamaShape, device: torch.device | str = "cpu") -> Tensor:
    """(head size / 2,): radians a position."""
    exponents = torch.arange(0, shape.head_size, 2, device=device).float() / shape.head_size
    plain, scaling = 1.0 / shape.rope_theta**exponents, shape.rope_scaling
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "llama3":
        return _llama3(plain, scaling)
    return _yarn(shape.rope_theta**exponents, shape, scaling)


def divisors(shape: LlamaShape) -> Tensor:
    """(head size / 2,): what scaling divides each frequency by."""
    exponents = torch.arange(0, shape.head_size, 2).float() / shape.head_size
    return 1.0 / shape.rope_theta**exponents / frequencies(shape)


def _llama3(plain: Tensor, scaling: RopeScaling) -> Tensor:
    """transformers' `_compute_llama3_parameters`: the number of turns within the original context decides."""
    turns = float(scaling.original_max_positions or 0) / (2 * math.pi / plain)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * plain / scaling.factor + smooth * plain


def _yarn(wavelengths: Tensor, shape: LlamaShape, scaling: RopeScaling) -> Tensor:
    """arXiv:2309.00071, section 3.2, with borders rounded to whole dimensions as its authors' code does."""

    def dimension(turns: float) -> float:
        """Which pair makes so many turns within the original context."""
        original = float(scaling.original_max_positions or 0)
        return shape.head_size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(shape.rope_theta))

    low = max(math.floor(dimension(scaling.beta_fast)), 0)
    high = min(math.ceil(dimension(scaling.beta_slow)), shape.head_size - 1)
    pairs = torch.arange(shape.head_size // 2, device=wavelengths.device).float()
    kept = 1 - ((pairs - low) / (high - low if high != low else 0.001)).clamp(0, 1)
    return 1.0 / (scaling.factor * wavelengths) * (1 - kept) + 1.0 / wavelengths * kept
