"""Activations in eight bits, as w8a8 rounds them: each token's inputs to a linear map by a scale of their own.

x ≈ s · round(x / s), s = max |x| / 127. What an engine gets by integer products is computed here in floating point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from train.model.linear import FloatLinear, LinearMap
from train.model.llama import Llama


def rounded(x: Tensor) -> Tensor:
    """(…, I) → the same in 255 levels a row."""
    scales = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    return (x / scales).round() * scales


class RoundedLinear(FloatLinear):
    """W x, with x rounded."""

    def __call__(self, x: Tensor) -> Tensor:
        """As `LinearMap`."""
        return super().__call__(rounded(x))


def linear_maps(vocab_size: int) -> Callable[[Tensor], LinearMap]:
    """For a sampler: rounding in every linear map but the output matrix, which is known by its rows."""
    return lambda weight: FloatLinear(weight) if len(weight) == vocab_size else RoundedLinear(weight)


def round_activations(model: Llama) -> None:
    """Let the linear maps of a model's layers round from now on, in its own forward pass."""

    def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (rounded(args[0]),)

    for layer in model.model.layers:
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_pre_hook(before)
