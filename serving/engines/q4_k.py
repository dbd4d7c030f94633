"""Q4_K, which the gguf library reads and does not write: super-blocks of 256 weights, as ggml's reference makes them.

A super-block is eight groups of 32. A weight is d · s · q − m · t: q in four bits, the group's s and t in six, d and m
in half precision for all eight. A group's scale and minimum are searched: of 22 ways to lay the sixteen levels the one
with the least error counts, where an error weighs √(mean x²) + |x|, so that large weights are kept better. Then scales
and minima are rounded to six bits, and weights are rounded once more to what these have become.

Layout of the 144 bytes: d, m, then twelve bytes of s and t, then 128 of q, two groups to 32 bytes
(`block_q4_K` in ggml-common.h, `quantize_row_q4_K_ref` in ggml-quants.c, ggml-org/llama.cpp).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

SUPER_BLOCK: Final = 256
"""Weights; a row has to be a multiple of it."""
_GROUP: Final = 32
_LEVELS: Final = np.float32(15)
_SIX_BITS: Final = np.float32(63)
_STRETCHES: Final = tuple(np.float32(-1 + 0.1 * step) for step in range(21))
"""Added to the sixteen levels' width when a group's range is laid out anew."""
_AT_ONCE: Final = 1 << 13  # groups: what a search holds stays in the processor's cache

Floats = npt.NDArray[np.float32]


def quantize_q4_k(weights: Floats) -> npt.NDArray[np.uint8]:
    """(…, row) weights → (…, row / 256 · 144) bytes.

    Raises:
        ValueError: a row is no multiple of 256.
    """
    if weights.shape[-1] % SUPER_BLOCK:
        raise ValueError(f"a row of {weights.shape[-1]} weights is no multiple of {SUPER_BLOCK}")
    groups = np.ascontiguousarray(weights, dtype=np.float32).reshape(-1, _GROUP)
    found = [_search(part) for part in np.split(groups, range(_AT_ONCE, len(groups), _AT_ONCE))]
    scales, minima = (np.concatenate(each).reshape(-1, 8) for each in zip(*found, strict=True))
    d, s = _six_bits(scales)
    m, t = _six_bits(minima)
    steps = (d.astype(np.float32)[:, None] * s).reshape(-1, 1)
    lowest = (m.astype(np.float32)[:, None] * t).reshape(-1, 1)
    levels = _levels(groups + lowest, _inverse(steps)).astype(np.uint8).reshape(-1, 4, 2, _GROUP)
    blocks = np.concatenate(
        (
            d[:, None].view(np.uint8),
            m[:, None].view(np.uint8),
            _packed_scales(s.astype(np.uint8), t.astype(np.uint8)),
            (levels[:, :, 0] | levels[:, :, 1] << 4).reshape(-1, SUPER_BLOCK // 2),
        ),
        axis=1,
    )
    return blocks.reshape(*weights.shape[:-1], -1)


def _search(groups: Floats) -> tuple[Floats, Floats]:
    """(n, 32) → the scale and the negated minimum of each group, both ≥ 0."""
    weight = np.sqrt(np.square(groups).mean(1, keepdims=True)) + np.abs(groups)
    highest, minimum = groups.max(1, keepdims=True), np.minimum(groups.min(1, keepdims=True), 0)
    sum_w, sum_x = weight.sum(1, keepdims=True), (weight * groups).sum(1, keepdims=True)
    scale = (highest - minimum) / _LEVELS
    error = _error(groups, weight, _levels(groups - minimum, _inverse(scale)), scale, minimum)
    for (
        stretch
    ) in _STRETCHES:  # each laid out over the minimum that was best before it, as the reference does
        levels = _levels(groups - minimum, (_LEVELS + stretch) * _inverse(highest - minimum))
        of_level = weight * levels
        sum_l, sum_l2 = of_level.sum(1, keepdims=True), (of_level * levels).sum(1, keepdims=True)
        sum_xl = (of_level * groups).sum(1, keepdims=True)
        fitted, least = _fit(sum_w, sum_x, sum_l, sum_l2, sum_xl)
        now = _error(groups, weight, levels, fitted, least)
        is_better = (now < error) & (sum_w * sum_l2 > sum_l * sum_l)
        scale, minimum = np.where(is_better, fitted, scale), np.where(is_better, least, minimum)
        error = np.where(is_better, now, error)
    return scale[:, 0], -minimum[:, 0]


def _fit(
    sum_w: Floats, sum_x: Floats, sum_l: Floats, sum_l2: Floats, sum_xl: Floats
) -> tuple[Floats, Floats]:
    """Least squares of x ≈ scale · level + minimum, the minimum no more than 0."""
    inverse = _inverse(sum_w * sum_l2 - sum_l * sum_l)
    scale = (sum_w * sum_xl - sum_x * sum_l) * inverse
    minimum = (sum_l2 * sum_x - sum_l * sum_xl) * inverse
    is_above = minimum > 0
    through_zero: Floats = sum_xl * _inverse(sum_l2)
    return np.where(is_above, through_zero, scale), np.where(is_above, np.float32(0), minimum)


def _error(groups: Floats, weight: Floats, levels: Floats, scale: Floats, minimum: Floats) -> Floats:
    error: Floats = (weight * np.square(scale * levels + minimum - groups)).sum(1, keepdims=True)
    return error


def _levels(above: Floats, inverse: Floats) -> Floats:
    levels: Floats = np.clip(np.rint(above * inverse), np.float32(0), _LEVELS)
    return levels


def _inverse(of: Floats) -> Floats:
    """1 / x, and 0 where there is nothing to lay out."""
    return np.divide(np.float32(1), of, out=np.zeros_like(of), where=of != 0)


def _six_bits(values: Floats) -> tuple[npt.NDArray[np.float16], Floats]:
    """(blocks, 8), none below 0 → the step of each block, and how many of them each value is, in [0, 63]."""
    largest = values.max(1, keepdims=True)
    counts = np.minimum(np.rint(_SIX_BITS * _inverse(largest) * values), _SIX_BITS)
    return (largest[:, 0] / _SIX_BITS).astype(np.float16), counts


def _packed_scales(s: npt.NDArray[np.uint8], t: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """(blocks, 8) each → twelve bytes: the last four groups' upper two bits lie above the first four's six."""
    return np.concatenate(
        (
            s[:, :4] | (s[:, 4:] >> 4) << 6,
            t[:, :4] | (t[:, 4:] >> 4) << 6,
            (s[:, 4:] & 15) | (t[:, 4:] & 15) << 4,
        ),
        axis=1,
    )
