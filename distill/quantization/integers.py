"""Weights as signed integers of a few bits, w ≈ s · q, a scale for each row or for each group of a row.

Rounding is to the nearest, symmetric: there is no zero point. A scale starts where a group's largest magnitude is the
largest level; where it is searched, smaller ones are tried as well, at which the largest weights are cut and all others
are rounded more finely, and the one with the least squared error counts (OMSE, arXiv:1902.06822). Levels are found for
scales as they are stored, in bfloat16, so that what is read back is what was measured. Where it is known which inputs
are large (`importance`), errors weigh as much.

Shapes: O outputs, I inputs, G groups of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from train.checkpoints.directory import CheckpointError

SCALE_TYPE: Final = torch.bfloat16
WORD_BITS: Final = 32
SHARES: Final = tuple(1 - step / 50 for step in range(21))
"""Of the largest magnitude, tried for the largest level: down to 0.6."""


class GroupSizeError(CheckpointError):
    """Rows do not divide into groups."""


class Integers(NamedTuple):
    """A matrix."""

    levels: Tensor
    """(O, I), int8."""
    scales: Tensor
    """(O, G), bfloat16, above 0."""

    def floats(self) -> Tensor:
        """(O, I), single precision: what the matrix stands for."""
        grouped = self.levels.float().unflatten(1, (self.scales.shape[1], -1))
        return (grouped * self.scales.float()[..., None]).flatten(1)


def round_to_integers(
    weight: Tensor,
    num_bits: int,
    *,
    group_size: int | None = None,
    shares: Sequence[float] = (1.0,),
    importance: Tensor | None = None,
) -> Integers:
    """Quantise a matrix.

    Args:
        weight: (O, I).
        num_bits: of a weight, 2 to 8; levels lie in [−2^(b−1), 2^(b−1) − 1].
        group_size: weights of a row that have a scale in common; all of them where None.
        shares: of the largest magnitude that the largest level is tried at; the first of the best counts.
        importance: (I,), what an error in a weight of each input costs; all the same where None.

    Raises:
        GroupSizeError: rows do not divide.
    """
    size = weight.shape[1] if group_size is None else group_size
    if weight.shape[1] % size:
        raise GroupSizeError(f"rows of {weight.shape[1]} weights do not divide into groups of {size}")
    groups = weight.float().unflatten(1, (-1, size))  # (O, G, size)
    cost = torch.ones_like(groups[0]) if importance is None else importance.float().unflatten(0, (-1, size))
    highest = 2 ** (num_bits - 1) - 1
    largest = groups.abs().amax(-1, keepdim=True)
    scales = torch.ones_like(largest).to(SCALE_TYPE)
    error = torch.full_like(largest, torch.inf)
    for share in shares:
        tried = (largest * share / highest).to(SCALE_TYPE)
        tried = torch.where(tried > 0, tried, torch.ones_like(tried))  # nothing but zeros
        apart = (
            (_levels(groups, tried, highest) * tried.float() - groups)
            .square()
            .mul_(cost)
            .sum(-1, keepdim=True)
        )
        scales = torch.where(apart < error, tried, scales)
        error = torch.minimum(apart, error)
    levels = _levels(groups, scales, highest).to(torch.int8)
    return Integers(levels.flatten(1), scales.squeeze(-1))


def pack(levels: Tensor, num_bits: int) -> Tensor:
    """(O, I) levels → (O, ⌈I · bits / 32⌉) int32: each made positive by 2^(b−1), the first in the lowest bits.

    This is compressed-tensors' `pack_to_int32`; rows that do not fill their last word end in zeros.
    """
    per_word = WORD_BITS // num_bits
    unsigned = levels.int() + 2 ** (num_bits - 1)
    filled = torch.nn.functional.pad(unsigned, (0, -levels.shape[1] % per_word))
    shifts = torch.arange(per_word, dtype=torch.int32) * num_bits
    return (filled.unflatten(1, (-1, per_word)) << shifts).sum(-1, dtype=torch.int32)


def unpack(words: Tensor, num_bits: int, num_inputs: int) -> Tensor:
    """The way back of `pack`: (O, I), int8."""
    shifts = torch.arange(WORD_BITS // num_bits, dtype=torch.int32) * num_bits
    unsigned = (words[..., None] >> shifts) & (2**num_bits - 1)
    return (unsigned.flatten(1)[:, :num_inputs] - 2 ** (num_bits - 1)).to(torch.int8)


def _levels(groups: Tensor, scales: Tensor, highest: int) -> Tensor:
    return (groups / scales.float()).round().clamp(-highest - 1, highest)
