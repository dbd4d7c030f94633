"""`tierwise distill evaluate`, and `tierwise distill publish` of what is no student: drafts, quantised models."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from distill.commands import evaluate, publish
from distill.subject import weights_sha256
from serving.engines.requantize import open_model, requantize
from tests.distill.student_run import DOMAIN, Made, good_dossier
from tests.train.test_publish import quiet

torch.set_num_threads(1)


def common(made: Made) -> list[str]:
    return ["--against", str(made.base.reference), "--home", str(made.home), "--threads", "1"]


def test_a_run_is_evaluated(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The domains of its recipe, scores of both, how near they are, what it is as a draft; JSON to stdout and a file.
    Nothing is published."""
    before = made.store.references()
    out = tmp_path / "evaluation.json"
    argv = [str(made.run), *common(made), "--items", "2", "--drafts", "2", "--out", str(out)]
    assert evaluate.main(argv) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert told == json.loads(out.read_text())
    comparison = told["comparison"]
    assert [each["domain"] for each in comparison["candidate"]["domains"]] == [DOMAIN]
    assert set(comparison["kept"]["differences"]) == {DOMAIN}
    assert comparison["kept"]["retention"] is None  # random weights solve nothing
    assert comparison["nearness"]["mean_divergence"] > 0
    assert len(comparison["acceptance"][0]["places"]) == 2
    assert told["is_same_tokenizer"] is True
    assert told["trials"] == []
    assert "retention: none, for the full model solves nothing" in said.err
    assert f"as a draft in {DOMAIN}: " in said.err
    assert made.store.references() == before


def test_domains_have_to_be_known(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint says nothing of them, nor does the base: name them."""
    assert evaluate.main([str(made.run / "student"), *common(made)]) == 1
    assert "name domains" in capsys.readouterr().err
    assert evaluate.main([str(made.run), *common(made), "--domains", "chain_sums"]) == 1
    assert "did you mean" in capsys.readouterr().err


def shown(made: Made, weights: Path, *words: str, name: str) -> int:
    """Publish with an evaluation that passes in all that it says."""
    dossier = good_dossier(weights_sha256(str(weights), made.store, quiet()))
    path = made.home / "evaluation.json"
    path.write_text(json.dumps(asdict(replace(dossier, candidate=name))))
    argv = [str(weights), *common(made), "--name", name, "--evaluation", str(path)]
    return publish.main([*argv, *words])


def test_a_quantised_model(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A GGUF is published as what its teacher is, quantised from it; what it is has to be said."""
    file = made.home / "tiny-Q4_0.gguf"
    requantize(open_model(made.base.weights), file, quantization="Q4_0")
    assert shown(made, file, name="tiny-q4_0") == 1
    assert "say what it is" in capsys.readouterr().err
    assert shown(made, file, "--as", "quantised", "--alias", "full@candidate", name="tiny-q4_0") == 0
    said = capsys.readouterr()
    manifest = made.store.load("full@candidate").manifest
    assert (manifest.kind, manifest.format, manifest.quantization) == ("base", "gguf", "Q4_0")
    assert [(each.role, each.reference) for each in manifest.parents] == [
        ("quantised_from", made.base.reference)
    ]
    assert "tierwise route refit --set tiers.full.model=full@candidate" in said.err


def predictions(made: Made, speed_up: float) -> Path:
    path = made.home / "cost.json"
    one = {
        "num_streams": 1,
        "num_drafts": 3,
        "draft_cost": 0.2,
        "verify_cost": 1.2,
        "break_even": 0.4,
        "speed_ups": {"sums": speed_up, "prose": 0.7},
    }
    path.write_text(json.dumps({"predictions": [one]}))
    return path


def test_a_draft_that_pays(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole model as a draft: it is asked what the cost model says, and refused where that is missing or too little;
    the router needs no new fit, for answers stay what they are."""
    student = made.run / "student"
    words = ["--as", "draft", "--alias", "draft@stable"]
    assert shown(made, student, *words, name="draft") == 1
    assert "acceptance is not measured" in capsys.readouterr().err
    assert shown(made, student, *words, "--cost-model", str(predictions(made, 0.99)), name="draft") == 1
    assert "0.99× in sums" in capsys.readouterr().err
    assert shown(made, student, *words, "--cost-model", str(predictions(made, 1.2)), name="draft") == 0
    said = capsys.readouterr()
    manifest = made.store.load("draft@stable").manifest
    assert (manifest.kind, manifest.format) == ("draft", "safetensors")
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {file.path for file in manifest.files}
    assert [each.role for each in manifest.parents] == ["target"]
    assert "route refit" not in said.err


def test_limits_have_to_be_possible(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit that none could be is said by its option's name."""
    argv = [str(made.run), *common(made), "--name", "x", "--max-domain-drop", "2"]
    assert publish.main(argv) == 1
    assert "--max-domain-drop" in capsys.readouterr().err
