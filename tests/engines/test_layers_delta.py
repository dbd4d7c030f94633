"""The difference of layers: what is written comes back, within its size; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from serving.engines.delta_file import QUANTIZATIONS
from serving.engines.layers_delta import LayersDelta, write_layers_delta
from serving.engines.requantize import open_model, requantize
from serving.engines.weight_delta import DeltaError, Weights

BLOCK_BYTES = {"Q4_0": 18, "Q5_0": 22, "Q8_0": 34}
STEPS = {"Q4_0": 8, "Q5_0": 16, "Q8_0": 127}
NORM, WIDE, NARROW = "output_norm.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.weight"


def some() -> dict[str, Weights]:
    random = np.random.default_rng(0)
    shapes = {WIDE: (48, 64), NARROW: (6, 20), NORM: (64,)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_what_is_written_comes_back(tmp_path: Path, quantization: str) -> None:
    """Matrices within a step of their quantisation, vectors and short rows to the bit, added to what is there."""
    differences = some()
    write_layers_delta(tmp_path / "d", differences, quantization=quantization)
    delta = LayersDelta(tmp_path / "d")
    assert delta.names == set(differences)
    for name, difference in differences.items():
        found = delta.added_to(name, np.ones_like(difference)) - 1
        bound = np.abs(difference).max() / STEPS[quantization] if name == WIDE else 1e-6
        assert np.abs(found - difference).max() <= bound * 1.01


def max_bytes(num_in_blocks: int, num_others: int, num_tensors: int, quantization: str) -> int:
    """The module's formula."""
    blocks = BLOCK_BYTES[quantization] * num_in_blocks // 32
    return blocks + 4 * num_others + 256 * num_tensors + 256


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_its_size_is_bounded(tmp_path: Path, quantization: str) -> None:
    """The formula holds for a file of many small tensors, where the header weighs most."""
    differences = {
        f"blk.{layer}.attn_output.weight": np.ones((4, 32), np.float32) for layer in range(40)
    } | some()
    write_layers_delta(tmp_path / "d", differences, quantization=quantization)
    bound = max_bytes(40 * 128 + 48 * 64, 6 * 20 + 64, 43, quantization)
    assert 0.25 * bound < (tmp_path / "d").stat().st_size <= bound


def test_ten_layers_of_the_packaged_model_are_small_enough() -> None:
    """35 million weights at Q4_0 are below 20.1 MB: what is released with the code may have 25."""
    matrices = 2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576
    assert max_bytes(10 * matrices, 21 * 576, 10 * 9 + 1, "Q4_0") < 20_100_000
    assert max_bytes(10 * matrices, 21 * 576, 10 * 9 + 1, "Q5_0") < 25_000_000


def test_what_is_no_difference_is_refused(tmp_path: Path) -> None:
    """A cut file, an absent one, and a model are named with what to do."""
    write_layers_delta(tmp_path / "d", some(), quantization="Q4_0")
    data = (tmp_path / "d").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(DeltaError, match=r"cut is damaged .*publish it again"):
        LayersDelta(tmp_path / "cut")
    with pytest.raises(DeltaError, match="no file"):
        LayersDelta(tmp_path / "absent")
    write_model(tmp_path / "model", some())
    with pytest.raises(DeltaError, match="of format 'llama', this tierwise reads 'layers-delta-1'"):
        LayersDelta(tmp_path / "model")


def test_another_base_is_refused(tmp_path: Path) -> None:
    """A base that lacks a changed weight, or has it in another shape, is another base."""
    weights = some()
    write_layers_delta(tmp_path / "d", weights, quantization="Q4_0")
    delta = LayersDelta(tmp_path / "d")
    write_model(tmp_path / "less", {WIDE: weights[WIDE], NORM: weights[NORM]})
    with pytest.raises(DeltaError, match=r"has no blk\.0\.ffn_up\.weight.*another base"):
        requantize(open_model(tmp_path / "less"), tmp_path / "out", quantization="Q8_0", delta=delta)
    write_model(tmp_path / "wider", weights | {WIDE: np.ones((48, 96), np.float32)})
    with pytest.raises(DeltaError, match=r"is \(48, 64\), the base's \(48, 96\)"):
        requantize(open_model(tmp_path / "wider"), tmp_path / "out", quantization="Q8_0", delta=delta)


def write_model(path: Path, weights: dict[str, Weights]) -> None:
    writer = GGUFWriter(path, "llama")
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
