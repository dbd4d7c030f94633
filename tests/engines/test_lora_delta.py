"""Adapters merged by hand: worked numbers, the order of rows, and refusal of what is not understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from serving.engines.lora_delta import CONFIG_NAME, WEIGHTS_NAME, LoraDelta
from serving.engines.weight_delta import DeltaError

PREFIX = "base_model.model.model.layers.1."
FIRST = np.array([[1.0, 2.0, 3.0]])  # A: (rank 1, in 3)
SECOND = np.arange(4.0)[:, None]  # B: (out 4, rank 1)


def write(place: Path, module: str, *, halves: str = "AB", **config: Any) -> Path:
    tensors = {"A": FIRST, "B": SECOND}
    named = {f"{PREFIX}{module}.lora_{half}.weight": tensors[half].astype(np.float16) for half in halves}
    save_file(named, place / WEIGHTS_NAME, metadata={"format": "pt"})
    (place / CONFIG_NAME).write_text(json.dumps({"r": 1, "lora_alpha": 2.0, **config}))
    return place


@pytest.mark.parametrize(
    ("module", "name", "rows"),
    [
        ("mlp.up_proj", "blk.1.ffn_up.weight", [0, 1, 2, 3]),
        ("self_attn.o_proj", "blk.1.attn_output.weight", [0, 1, 2, 3]),
        ("self_attn.q_proj", "blk.1.attn_q.weight", [0, 2, 1, 3]),
        ("self_attn.k_proj", "blk.1.attn_k.weight", [0, 2, 1, 3]),
    ],
)
def test_merged_by_hand(tmp_path: Path, module: str, name: str, rows: list[int]) -> None:
    """W + 2/1 · B A; rows of queries and keys, of one head here, in GGUF's order."""
    delta = LoraDelta(write(tmp_path, module), num_heads=1, num_kv_heads=1)
    assert delta.names == {name}
    found = delta.added_to(name, np.ones((4, 3), np.float32))
    assert found.tolist() == [[1 + 2 * row * column for column in (1, 2, 3)] for row in rows]


def test_what_is_not_understood_is_refused(tmp_path: Path) -> None:
    """Another kind of adapter, half of one, one elsewhere, another base, a cut file: each is said."""

    def opened(module: str = "mlp.up_proj", **how: Any) -> LoraDelta:
        return LoraDelta(write(tmp_path, module, **how), num_heads=1, num_kv_heads=1)

    with pytest.raises(DeltaError, match="needs use_rslora"):
        opened(use_rslora=True)
    with pytest.raises(DeltaError, match="half an adapter of blk"):
        opened(halves="A")
    with pytest.raises(DeltaError, match=r"mlp\.router\.lora_A\.weight, which is no linear map"):
        opened("mlp.router")
    with pytest.raises(DeltaError, match=r"is \(4, 3\), the base's \(4, 5\)"):
        opened().added_to("blk.1.ffn_up.weight", np.ones((4, 5), np.float32))
    data = (tmp_path / WEIGHTS_NAME).read_bytes()
    for num_bytes in (4, 40, len(data) - 2):
        (tmp_path / WEIGHTS_NAME).write_bytes(data[:num_bytes])
        with pytest.raises(DeltaError, match="no whole adapter"):
            LoraDelta(tmp_path, num_heads=1, num_kv_heads=1)
