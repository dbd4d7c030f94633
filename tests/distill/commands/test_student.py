"""`tierwise distill student` on a tiny checkpoint: begun, gone on with, measured beforehand, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from distill.commands import distill
from distill.opened_base import weights_sha256
from distill.student_directory import ABOUT_NAME, ORIGIN_NAME, STUDENT_NAME
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape
from train.model.weights import load_llama, save_llama
from train.run_directory import METRICS_NAME

torch.set_num_threads(1)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=4, max_positions=1024))
    return tmp_path / "tiny"


def _argv(tiny: Path, out: Path) -> list[str]:
    assigned = {
        "base": f'{{type="artifact",source="{tiny}"}}',
        "texts.max_text_tokens": "256",
        "prune.num_items": "2",
        "kd.num_steps": "2",
        "kd.items_per_step": "3",
        "gkd.num_steps": "1",
        "gkd.items_per_step": "3",
        "evaluation.num_items": "1",
    }
    sets = [each for key, value in assigned.items() for each in ("--set", f"{key}={value}")]
    return ["student", "student_smoke", "--out", str(out), "--home", str(out.parent / "home"), *sets]


def test_a_student_of_a_checkpoint(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run ends with a checkpoint, with what it is, and with a table; its base may not change meanwhile."""
    out = tmp_path / "run"
    assert distill.main(_argv(tiny, out)) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    assert "what the student kept of its teacher" in said.err
    about = json.loads((out / ABOUT_NAME).read_text())
    assert about == {
        "kept_layers": json.loads((out / "pruning.json").read_text())["kept_layers"],
        "teacher": str(tiny),
        "teacher_sha256": weights_sha256(load_llama(tiny)),
        "base": str(tiny),
    }
    student = load_llama(out / STUDENT_NAME)
    assert student.shape.num_layers == len(about["kept_layers"]) == 2
    assert (out / STUDENT_NAME / "tokenizer.json").exists()
    lines = (out / METRICS_NAME).read_text()
    assert distill.main([*_argv(tiny, out), "--resume"]) == 0  # at its end already
    assert (out / METRICS_NAME).read_text() == lines
    assert distill.main(_argv(tiny, out)) == 1
    assert "holds a run already" in capsys.readouterr().err
    save_llama(load_llama(out / STUDENT_NAME), tiny)
    assert distill.main([*_argv(tiny, out), "--resume"]) == 1
    assert "name that version, or begin anew" in capsys.readouterr().err


def test_what_it_would_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run tells time, tokens and bytes, and writes nothing."""
    argv = ["student", "student_smoke", "--dry-run", "--home", str(tmp_path / "home")]
    assert distill.main([*argv, "--set", "evaluation.num_items=1"]) == 0
    said = capsys.readouterr().out
    assert all(
        each in said for each in ("learned from", "memory at its peak", "Q4_0", "4 steps of", "altogether")
    )
    assert not (tmp_path / ORIGIN_NAME).exists()


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No directory, no such recipe or setting, items with tools, a teacher of other tokens: each is said."""
    home = ["--home", str(tmp_path / "home")]
    assert distill.main(["student", "student_smoke"]) == 2
    assert distill.main(["student", "nothing", "--out", str(tmp_path / "a")]) == 2
    assert distill.main(["student", "student_smoke", "--set", "kd.steps=1", "--print-config"]) == 2
    assert distill.main(["student", "student_smoke", "--print-config"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["kd"]["num_steps"] == 4
    assert all(each in said.err for each in ("--out RUN", "no recipe 'nothing'", "kd.steps"))
    for setting, reason in (
        ('domains=[{name="tool_sql",levels=[0]}]', "have tools"),
        ('teacher.url="http://127.0.0.1:9"', "other tokens than any engine"),
        ("texts.max_text_tokens=128", "the base takes 64 tokens"),
        ("prune.num_layers=5", "the base has 4"),
    ):
        out = tmp_path / reason.replace(" ", "_")
        assert distill.main(["student", "student_smoke", "--out", str(out), "--set", setting, *home]) == 1
        assert reason in capsys.readouterr().err
