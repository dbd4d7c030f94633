"""Linear maps for sampling: as they are, or in eight bits with a scale for each row of activations and of weights.

Either way a row's result does not depend on what else is in the batch, nor on how many rows there are: sums of
eight-bit products are exact integers, and the others are computed for a number of rows at which the library's own order
of summation is always the same (`ROWS`). `tests/train/model/test_linear.py` holds it to the bit.

The eight-bit map is symmetric: round(x · 127 / max|x|) by row of x, and the same by output row of W. It is another
policy than the one it was made of, close to it; whoever samples with it reports its own log-probabilities.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 16
"""Rows are filled up to a multiple of it: MKL sums in another order where there are few, or few for each thread."""


class LinearMap(Protocol):
    """(rows, in) → (rows, out)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        ...


class FloatLinear:
    """W x, as it is.

    Args:
        weight: (out, in); held, not copied.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        """As `LinearMap`."""
        missing = -len(x) % ROWS
        if missing:
            return functional.linear(functional.pad(x, (0, 0, 0, missing)), self.weight)[: len(x)]
        return functional.linear(x, self.weight)


class Int8Linear:
    """W x in eight bits.

    Args:
        weight: (out, in); read, not held.
    """

    def __init__(self, weight: Tensor) -> None:
        scales = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
        # (in, out), its rows strided: the layout that the integer product takes without a copy
        self._weight = (weight / scales).round().to(torch.int8).t()
        self._scales = scales.t().contiguous()  # (1, out)

    def __call__(self, x: Tensor) -> Tensor:
        """As `LinearMap`."""
        scales = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
        product = torch._int_mm((x / scales).round().to(torch.int8), self._weight)
        return product * scales * self._scales
