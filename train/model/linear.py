"""Linear maps for sampling: as they are, or with weights in eight bits, which is faster where few rows are multiplied.

Either way a row's result does not depend on what else is in the batch, nor on how many rows there are: sums of
eight-bit products are exact integers, and the others are computed for a number of rows at which the library's own order
of summation is always the same (`ROWS`). `tests/train/model/test_linear.py` holds it to the bit.

Eight-bit weights have a scale for each output row, w ≈ s · q. Activations have two eight-bit digits and a scale for
each row of them, x ≈ s · (h + l / 254): with one digit alone, the few large activations that language models have drown
the others. It is another policy even so: whoever samples with it reports its own log-probabilities. `tierwise train
bench` measures how far they are.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 16
"""Rows are filled up to a multiple of it: MKL sums in another order where there are few, or few for each thread."""
_DIGIT = 254.0  # what is left of rounding, at most a half, in 127 steps


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
    """W x with eight-bit weights.

    Args:
        weight: (out, in); read, not held.
    """

    def __init__(self, weight: Tensor) -> None:
        scales = _scales(weight)
        # (in, out), its rows strided: the layout that the integer product takes without a copy
        self._weight = (weight / scales).round().to(torch.int8).t()
        self._scales = scales.t().contiguous()  # (1, out)

    def __call__(self, x: Tensor) -> Tensor:
        """As `LinearMap`."""
        scales = _scales(x)
        scaled = x / scales
        high = scaled.round()
        low = ((scaled - high) * _DIGIT).round()
        product = torch._int_mm(torch.cat((high, low)).to(torch.int8), self._weight).to(x.dtype)
        return torch.add(product[: len(x)], product[len(x) :], alpha=1 / _DIGIT) * scales * self._scales


def _scales(rows: Tensor) -> Tensor:
    """(rows, 1): what 127 steps of make a row's largest member."""
    return rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
