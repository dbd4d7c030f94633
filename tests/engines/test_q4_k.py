"""Q4_K as we write it: by hand, within its step, and beside ggml's own quantiser."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import xllamacpp
from gguf import GGMLQuantizationType, dequantize

from serving.engines.q4_k import SUPER_BLOCK, Floats, quantize_q4_k

GGML = Path(xllamacpp.__file__).parent / "xllamacpp.abi3.so"
KINDS = ("normal", "long-tailed", "negative", "positive", "partly nought", "constant")


def weights_of(kind: str) -> Floats:
    random = np.random.default_rng(KINDS.index(kind))
    values = random.standard_normal((32, 3 * SUPER_BLOCK)).astype(np.float32) / 20
    match kind:
        case "long-tailed":
            values = random.standard_t(3, values.shape).astype(np.float32)
        case "negative":
            values = -np.abs(values)
        case "positive":
            values = np.abs(values) + 1
        case "partly nought":
            values[:, : SUPER_BLOCK + 32] = 0
        case "constant":
            values[:] = -0.3
    return values


def read(blocks: np.ndarray) -> Floats:
    found: Floats = dequantize(blocks, GGMLQuantizationType.Q4_K)
    return found


def native(values: Floats) -> np.ndarray:
    """What ggml writes; its library exports the function."""
    quantize = ctypes.CDLL(str(GGML)).ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    rows, row = values.shape
    blocks = np.zeros((rows, row // SUPER_BLOCK * 144), np.uint8)
    kind = int(GGMLQuantizationType.Q4_K)
    assert quantize(kind, values.ctypes.data, blocks.ctypes.data, 0, rows, row, None) == blocks.nbytes
    return blocks


def test_by_hand() -> None:
    """Eight groups that each hold levels 0 to 15, of steps 1 to 8 and minima 0 to 7 · 9: bytes as the layout has them.

    d is 8 / 63 and s round(63 k / 8) = 8, 16, 24, 32, 39, 47, 55, 63; m is 63 / 63 = 1 and t = 9 k.
    """
    levels = np.arange(32) % 16
    values = np.concatenate([step * levels - 9.0 * (step - 1) for step in range(1, 9)]).astype(np.float32)
    block = quantize_q4_k(values[None])[0]
    assert block[:4].tobytes() == np.array([8 / 63, 1], np.float16).tobytes()
    s, t = (8, 16, 24, 32, 39, 47, 55, 63), (0, 9, 18, 27, 36, 45, 54, 63)
    assert block[4:8].tolist() == [s[k] | (s[k + 4] >> 4) << 6 for k in range(4)]
    assert block[8:12].tolist() == [t[k] | (t[k + 4] >> 4) << 6 for k in range(4)]
    assert block[12:16].tolist() == [s[k + 4] % 16 | t[k + 4] % 16 << 4 for k in range(4)]
    assert block[16:].tolist() == [level | level << 4 for level in [*range(16), *range(16)]] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_error_stays_within_the_step(kind: str) -> None:
    """A weight is off by no more than one step of the sixteen, and on the whole by a good deal less than half."""
    values = weights_of(kind)
    groups = values.reshape(-1, 32)
    apart = np.abs(read(quantize_q4_k(values)) - values).reshape(-1, 32)
    # six bits round a scale by up to 1/126 of the super-block's largest, over fifteen levels, and a minimum likewise
    widest = np.abs(values).reshape(-1, SUPER_BLOCK).max(1).repeat(8)[:, None]
    width = groups.max(1, keepdims=True) - np.minimum(groups.min(1, keepdims=True), 0)
    assert (apart <= width / 15 + widest / 20).all()
    assert np.sqrt(np.square(apart).mean()) <= 0.36 * np.sqrt(np.square(width / 15).mean()) + 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_ggml_writes(kind: str) -> None:
    """Nearly every byte is the same, sums being rounded in another order; the error is the same to a thousandth."""
    values = weights_of(kind)
    ours, theirs = quantize_q4_k(values), native(values)
    assert (ours == theirs).mean() > 0.95
    error, native_error = (np.square(read(each) - values).mean() for each in (ours, theirs))
    assert error == pytest.approx(native_error, rel=2e-3, abs=1e-12)


def test_it_loses_less_than_one_pass() -> None:
    """The search is worth it: plain rounding of each group's range to sixteen levels has more error."""
    values = weights_of("long-tailed")
    groups = values.reshape(-1, 32)
    low = np.minimum(groups.min(1, keepdims=True), 0)
    step = (groups.max(1, keepdims=True) - low) / 15
    plain = np.rint((groups - low) / step) * step + low
    assert np.square(read(quantize_q4_k(values)) - values).mean() < 0.98 * np.square(plain - groups).mean()


def test_rows_that_do_not_divide_are_refused() -> None:
    """SmolLM2's rows of 576 are no super-blocks."""
    with pytest.raises(ValueError, match="576 weights is no multiple of 256"):
        quantize_q4_k(np.zeros((2, 576), np.float32))
