"""`tierwise distill prune` and `early-exit` on a tiny checkpoint: they write what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from distill.commands import early_exit, prune
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


def test_early_exit(tiny: Path, tmp_path: Path) -> None:
    """A checkpoint for every exit, and the losses go down."""
    out = tmp_path / "out"
    argv = [
        str(tiny),
        "--exits",
        "1,3",
        "--steps",
        "12",
        "--learning-rate",
        "0.01",
        "--out",
        str(out),
        *TEXTS,
    ]
    assert early_exit.main(argv) == 0
    layers = {name: load_llama(out / name).shape.num_layers for name in ("exit-1", "exit-3", "whole")}
    assert layers == {"exit-1": 1, "exit-3": 3, "whole": 4}
    losses = json.loads((out / early_exit.REPORT_NAME).read_text())["losses"]
    assert all(losses[-1][depth] < losses[0][depth] for depth in ("1", "3", "4"))


def test_wrong_use(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too many layers, an exit that is not there, something in the way: each is said, with status 1."""
    out = ["--out", str(tmp_path / "out"), *TEXTS]
    assert prune.main([str(tiny), "--keep", "4", *out]) == 1
    assert early_exit.main([str(tiny), "--exits", "9", *out]) == 1
    assert prune.main([str(tiny), "--keep", "2", "--out", str(tiny)]) == 1
    said = capsys.readouterr().err
    assert all(each in said for each in ("keep fewer", "no exit behind layer 9", "holds something already"))
