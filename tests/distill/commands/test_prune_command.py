"""`tierwise distill prune` on a tiny checkpoint: it writes what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from distill.commands import prune
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.model.weights import load_llama

torch.set_num_threads(1)
TEXTS = [
    "--domains",
    "chain_sum",
    "--items",
    "3",
    "--general",
    "1",
    "--max-answer-tokens",
    "4",
    "--threads",
    "1",
]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=4, max_positions=1024))
    return tmp_path / "tiny"


def test_prune(tiny: Path, tmp_path: Path) -> None:
    """A checkpoint of so many layers, those of the report; the beam is told beside greedy removal."""
    out = tmp_path / "out"
    assert prune.main([str(tiny), "--keep", "2", "--beam", "2", "--gguf", "--out", str(out), *TEXTS]) == 0
    told = json.loads((out / prune.REPORT_NAME).read_text())
    whole, pruned = load_llama(tiny), load_llama(out)
    assert pruned.shape.num_layers == 2
    for ours, theirs in enumerate(told["kept_layers"]):
        weights = (
            model.model.layers[layer].mlp.up_proj.weight for model, layer in ((pruned, ours), (whole, theirs))
        )
        assert torch.equal(*weights)
    assert set(told["sets"]) == {"greedy", "beam of 2", "first", "evenly"}
    assert told["settings"]["keep"] == 2
    assert (out / "model.gguf").exists()
    assert (out / "tokenizer.json").exists()


def test_prune_channels(tiny: Path, tmp_path: Path) -> None:
    """Fewer channels in every layer that is left, those of the report; other choices and widths between are told."""
    out = tmp_path / "out"
    assert prune.main([str(tiny), "--keep", "3", "--width", "32", "--gguf", "--out", str(out), *TEXTS]) == 0
    told = json.loads((out / prune.REPORT_NAME).read_text())
    whole, pruned = load_llama(tiny), load_llama(out)
    assert (pruned.shape.num_layers, pruned.shape.intermediate_size) == (3, 32)
    for ours, theirs in enumerate(told["kept_layers"]):
        kept = told["kept_channels"][ours]
        narrow, wide = (model.model.layers[layer].mlp for model, layer in ((pruned, ours), (whole, theirs)))
        assert torch.equal(narrow.up_proj.weight, wide.up_proj.weight[kept])
        assert torch.equal(narrow.down_proj.weight, wide.down_proj.weight[:, kept])
    assert [*told["widths"]] == ["32"]
    assert set(told["other_channels"]) == {"first", "by chance"}
    assert (out / "model.gguf").exists()


def test_wrong_use(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too many layers or channels, a width no GGUF has, nothing to leave out, something in the way: each is said."""
    out = ["--out", str(tmp_path / "out"), *TEXTS]
    assert prune.main([str(tiny), "--keep", "4", *out]) == 1
    assert prune.main([str(tiny), "--width", "40", *out]) == 1
    assert prune.main([str(tiny), "--width", "30", "--gguf", *out]) == 1
    assert prune.main([str(tiny), "--keep", "2", "--out", str(tiny)]) == 1
    with pytest.raises(SystemExit):
        prune.main([str(tiny), *out])
    said = capsys.readouterr().err
    assert all(
        each in said
        for each in (
            "keep fewer",
            "channels; keep fewer",
            "blocks of 32",
            "say how many",
            "holds something already",
        )
    )
