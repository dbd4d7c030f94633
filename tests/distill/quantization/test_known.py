"""What quantising found is read by the gate of the very weights and teacher that it was found of, and of no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from distill import publish as publishing
from distill.commands import publish, quantize
from distill.dossier import Dossier
from distill.hashes import hash_of_path
from distill.paired import Estimate, Kept
from distill.quantization.known import known_of
from distill.quantization.report import REPORT_NAME, Quantised, Report
from serving.engines.requantize import open_model, requantize
from tests.distill.student_run import DOMAIN, Made, good_dossier
from train.agreement import Agreement
from train.evaluate import DomainScore, Evaluation, Score
from train.run_directory import RunError

torch.set_num_threads(1)
NAME = "tiny-q4_0.gguf"


def evaluation(score: float) -> Evaluation:
    """Of 64 items."""
    row = DomainScore(
        domain=DOMAIN,
        num_items=64,
        greedy=Score(score, score - 0.1, score + 0.1),
        sampled=None,
        num_errors=0,
        mean_tokens=6.0,
    )
    return Evaluation((row,))


@dataclass
class Small:
    """A quantised file with the report beside it."""

    made: Made
    file: Path
    report: Report

    def tell(self, **changes: Any) -> None:
        """Write the report, its line changed."""
        told = replace(self.report, types=(replace(self.report.types[0], **changes),))
        (self.file.parent / REPORT_NAME).write_text(json.dumps({"settings": {}, **told.as_json()}))

    def publish(self, *words: str) -> int:
        argv = [str(self.file), "--against", str(self.made.base.reference), "--home", str(self.made.home)]
        return publish.main([*argv, "--name", "small", "--as", "quantised", "--domains", DOMAIN, *words])


@pytest.fixture
def small(made: Made, tmp_path: Path) -> Small:
    """A Q4_0 of the base, said to keep 0.95 of its score."""
    file = tmp_path / "small" / NAME
    file.parent.mkdir()
    requantize(open_model(made.base.weights), file, quantization="Q4_0")
    line = Quantised(
        type="q4_0",
        file=NAME,
        sha256=hash_of_path(file),
        size_bytes=file.stat().st_size,
        num_weights={"Q4_0": 1},
        agreements={DOMAIN: Agreement(0.02, 0.9, 40)},
        evaluation=evaluation(0.57),
        kept=Kept(Estimate(0.95, 0.91, 0.99), {DOMAIN: Estimate(-0.03, -0.06, 0.0)}),
        speed=None,
        reasons=(),
    )
    report = Report(
        sha256=hash_of_path(made.base.weights),
        num_parameters=1,
        size_bytes=4,
        evaluation=evaluation(0.6),
        speeds=(),
        types=(line,),
    )
    found = Small(made, file, report)
    found.tell()
    return found


def test_of_these_weights_and_this_teacher(small: Small) -> None:
    """Scores, lengths and intervals are those of the report; beside another teacher there are none."""
    known = known_of(small.file)
    assert known is not None
    assert (known.report, known.line) == (small.report, small.report.types[0])
    comparison = known.comparison(small.report.sha256)
    assert comparison is not None
    assert (comparison.candidate.score.value, comparison.teacher.score.value) == (0.57, 0.6)
    assert comparison.candidate.mean_tokens == 6.0
    assert comparison.kept == small.report.types[0].kept
    assert known.comparison("0" * 64) is None


def test_of_others_nothing_is_known(small: Small) -> None:
    """A file that was changed, one of another name, one without scores; a report of something else is an error."""
    small.tell(evaluation=None, kept=None)
    known = known_of(small.file)
    assert known is not None
    assert known.comparison(small.report.sha256) is None
    assert known_of(small.file.rename(small.file.with_name("other.gguf"))) is None
    small.file.write_bytes(b"other weights")
    assert known_of(small.file) is None
    (small.file.parent / REPORT_NAME).write_text("{}")
    with pytest.raises(RunError, match="quantise again, or move it away"):
        known_of(small.file)


def examiner(asked: list[bool]) -> Callable[..., Dossier]:
    """Engines take everything; notes whether scores were asked for, which are bad."""

    def examine(candidate: str, *_: object, questions: object, **__: object) -> Dossier:
        asked.append(questions is not None)
        found = good_dossier(hash_of_path(Path(candidate)))
        assert found.comparison is not None
        bad = replace(found.comparison, kept=Kept(Estimate(0.5, 0.4, 0.6), found.comparison.kept.differences))
        return replace(found, comparison=bad if questions is not None else None)

    return examine


def test_the_gate_reads_them(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked, by domain it is in the manifest; with --ask-again, or of other weights, it is measured."""
    asked: list[bool] = []
    monkeypatch.setattr(publishing, "examine", examiner(asked))
    assert small.publish("--alias", "full@candidate") == 0
    assert asked == [False]
    manifest = small.made.store.load("full@candidate").manifest
    assert manifest.metrics["all"]["retention"] == 0.95
    assert manifest.metrics[DOMAIN]["teacher_greedy"] == 0.6
    assert (manifest.recipe["type"], manifest.recipe["divergence"]) == ("q4_0", 0.02)
    assert f"scores of 64 items are those of {REPORT_NAME}" in capsys.readouterr().err
    assert small.publish("--ask-again") == 1
    small.tell(sha256="0" * 64)
    assert small.publish() == 1
    assert asked == [False, True, True]
    assert "retention is 0.500" in capsys.readouterr().err


def test_what_did_not_pass_is_refused(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason that quantising gave."""
    small.tell(reasons=("it is too far apart",))
    assert small.publish() == 1
    assert "did not pass when it was quantised: it is too far apart" in capsys.readouterr().err


@pytest.mark.engines
@pytest.mark.timeout(400)
def test_quantised_and_published_for_real(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command scored is what the gate shows, llama.cpp beside it; random weights solve nothing."""
    full = made.run / "student"
    texts = ["--domains", DOMAIN, "--items", "2", "--general", "0", "--threads", "1", "--score-items", "2"]
    out = tmp_path / "small"
    assert quantize.main([str(full), "--name", "m", "--types", "q8_0", "--out", str(out), *texts]) == 0
    capsys.readouterr()
    argv = [str(out / "m-q8_0.gguf"), "--against", str(full), "--home", str(made.home), "--name", "small"]
    few = ["--streams", "1,2", "--cost-streams", "2", "--tokens", "8", "--rounds", "1", "--threads", "1"]
    assert publish.main([*argv, "--as", "quantised", "--engines", "llama.cpp", *few]) == 1
    said = capsys.readouterr().err
    assert f"scores of 2 items are those of {REPORT_NAME}" in said
    assert "asking" not in said
    assert "retention is the teacher solves nothing" in said
    assert "llama.cpp is" not in said
