"""`tierwise distill early-exit` on a tiny checkpoint: begun, gone on with, measured beforehand, and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from distill.commands import distill
from distill.opened_base import weights_sha256
from distill.subject import opened
from serving.bringup.progress import LineReport
from serving.registry.store import Store
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.model.weights import load_llama, state_of
from train.run_directory import METRICS_NAME, RECIPE_NAME

torch.set_num_threads(1)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=4, max_positions=1024))
    return tmp_path / "tiny"


def _argv(tiny: Path, out: Path) -> list[str]:
    assigned = {
        "base": f'{{type="artifact",source="{tiny}"}}',
        "exits": "[1,3]",
        "texts.max_text_tokens": "256",
        "kd.num_steps": "2",
        "kd.items_per_step": "3",
        "evaluation.num_items": "1",
    }
    sets = [each for key, value in assigned.items() for each in ("--set", f"{key}={value}")]
    return ["early-exit", "early_exit_smoke", "--out", str(out), "--home", str(out.parent / "home"), *sets]


def test_exits_of_a_checkpoint(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run ends with a student's run for each exit, and a table; the whole stays, and resuming adds nothing."""
    out, before = tmp_path / "run", weights_sha256(load_llama(tiny))
    assert distill.main(_argv(tiny, out)) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    assert "what each exit kept" in said.err
    for depth in (1, 3):
        directory = out / f"exit-{depth}"
        about = json.loads((directory / "student.json").read_text())
        assert about["kept_layers"] == list(range(depth))
        assert about["teacher_sha256"] == before == weights_sha256(load_llama(tiny))
        assert (directory / RECIPE_NAME).read_text() == (out / RECIPE_NAME).read_text()
        assert "chain_sum" not in (directory / "retention.txt").read_text()
        assert "terse_sorting" in (directory / "retention.txt").read_text()
        with opened(str(directory), Store(tmp_path / "home" / "registry"), LineReport(print)) as subject:
            assert subject.model is not None
            assert subject.model.shape.num_layers == depth
            alone, whole = state_of(subject.model), state_of(load_llama(tiny))
        assert not torch.equal(alone["model.norm.weight"], whole["model.norm.weight"])
        assert torch.equal(alone["model.embed_tokens.weight"], whole["model.embed_tokens.weight"])
    lines = (out / METRICS_NAME).read_text()
    assert distill.main([*_argv(tiny, out), "--resume"]) == 0
    assert (out / METRICS_NAME).read_text() == lines
    assert distill.main(_argv(tiny, out)) == 1
    assert "holds a run already" in capsys.readouterr().err


def test_what_it_would_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run tells time, tokens and bytes, and writes nothing."""
    home = tmp_path / "home"
    assert distill.main(["early-exit", "early_exit_smoke", "--dry-run", "--home", str(home)]) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    for each in ("6 of", "learned from", "exit 2, difference at Q4_0", "evaluation of whole", "altogether"):
        assert each in said
    assert not list(tmp_path.glob("**/recipe.json"))


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No directory, no such recipe, an exit that is the whole: each is said."""
    assert distill.main(["early-exit", "early_exit_smoke"]) == 2
    assert distill.main(["early-exit", "nothing", "--out", str(tmp_path / "a")]) == 2
    assert distill.main(["early-exit", "early_exit_smoke", "--print-config", "--set", "exits=[2]"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["exits"] == [2]
    assert all(each in said.err for each in ("--out RUN", "no recipe 'nothing'"))
    argv = ["early-exit", "early_exit_smoke", "--out", str(tmp_path / "b"), "--home", str(tmp_path / "home")]
    assert distill.main([*argv, "--set", "exits=[2,4]"]) == 1
    assert "name 1 to 3 as `exits`" in capsys.readouterr().err
