"""A student's file: which layers it keeps, and what was added to their weights, both ways in which it is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from serving.engines.student_delta import FILE_NAME, LowRank, StudentDelta, write_student_delta
from serving.engines.weight_delta import DeltaError, Weights

RANDOM = np.random.default_rng(2)


def normal(*shape: int) -> Weights:
    return RANDOM.normal(size=shape).astype(np.float32)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    """Vectors to the bit, matrices but for their quantisation, products but for half precision; and the layers."""
    product = LowRank(normal(3, 64), normal(48, 3))
    differences = {
        "blk.2.attn_norm.weight": normal(64), "blk.2.ffn_up.weight": normal(96, 64), "blk.5.attn_q.weight": product
    }  # fmt: skip
    write_student_delta(tmp_path / FILE_NAME, (0, 2, 5), differences, quantization="Q8_0")
    delta = StudentDelta(tmp_path / FILE_NAME)
    assert delta.kept_layers == (0, 2, 5)
    assert delta.names == differences.keys()
    told = {**differences, "blk.5.attn_q.weight": product.second @ product.first}
    for name, difference in told.items():
        found = delta.added_to(name, np.ones_like(difference)) - 1
        np.testing.assert_allclose(found, difference, atol=1e-6 if difference.ndim == 1 else 0.03)
        with pytest.raises(DeltaError, match="it is another base"):
            delta.added_to(name, np.ones((7, 7), np.float32))


@pytest.mark.parametrize("kept", [(2, 1), (1, 1), (-1, 2)])
def test_layers_that_do_not_rise_are_refused(tmp_path: Path, kept: tuple[int, ...]) -> None:
    """Turned round, twice the same, or below nought."""
    write_student_delta(tmp_path / FILE_NAME, kept, {}, quantization="Q4_0")
    with pytest.raises(DeltaError, match="do not rise"):
        StudentDelta(tmp_path / FILE_NAME)


def test_what_is_no_student_is_refused(tmp_path: Path) -> None:
    """No file, no GGUF, and a quantisation that is not written."""
    with pytest.raises(DeltaError, match="no file"):
        StudentDelta(tmp_path / FILE_NAME)
    (tmp_path / FILE_NAME).write_bytes(b"none")
    with pytest.raises(DeltaError, match="damaged"):
        StudentDelta(tmp_path / FILE_NAME)
    with pytest.raises(ValueError, match="is none of"):
        write_student_delta(tmp_path / "other", (0,), {}, quantization="Q2_K")
