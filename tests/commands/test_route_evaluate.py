"""`tierwise route evaluate` on invented outcomes: what is read, judged, required, told and refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.artifact import to_bytes
from router.artifact_header import ArtifactHeader
from router.boosting import BoostConfig
from router.fit import fit
from router.fit_config import FitConfig
from router.outcome_table import table_of_routellm
from router.outcomes import OutcomeRow, as_members
from router.prepared import prepare
from serving.commands import route_evaluate, route_evaluate_plots
from serving.commands.outcomes_source import read_tables
from serving.commands.route_evaluate import main
from serving.commands.route_evaluate_gate import BoundError, parse_bounds

EASY, HARD = "sunny garden apple chair friend walk", "tensor lemma entropy quasar kernel axiom"


def pairs(num: int, *, seed: int, name: str = "exam") -> list[dict[str, Any]]:
    """Prompts of easy or hard words: the weak model fails the hard ones, the strong one seldom fails."""
    generator = np.random.default_rng(seed)
    records = []
    for number in range(num):
        is_hard = bool(generator.random() < 0.5)
        words = generator.choice((HARD if is_hard else EASY).split(), 6)
        letters = "".join(chr(97 + generator.integers(26)) for _ in range(40))
        noise = " ".join(letters[at : at + 5] for at in range(0, 40, 5))
        records.append(
            {
                "set": name,
                "subject": "any",
                "prompt": f"{' '.join(words)} {noise}?",
                "weak_correct": bool(generator.random() < (0.15 if is_hard else 0.85)),
                "strong_correct": bool(generator.random() < 0.9),
                "number": number,
            }
        )
    return records


def write(path: Path, records: list[Any]) -> Path:
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = FitConfig(boosting=BoostConfig(num_trees=5))
    model = fit(prepare(table_of_routellm(pairs(400, seed=7))), config, version="small-1")
    header = ArtifactHeader(
        version="small-1",
        arms=model.arms,
        num_prompts=400,
        num_groups=400,
        data_sha256="0" * 64,
        recipe={},
        metrics={},
    )
    path = tmp_path_factory.mktemp("artifact") / "router.npz"
    path.write_bytes(to_bytes(model, header))
    return path


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits that take seconds: these outcomes need no trees."""
    monkeypatch.setattr(
        route_evaluate, "FitConfig", partial(FitConfig, boosting=BoostConfig(num_trees=5), max_steps=30)
    )


Evaluate = Callable[..., dict[str, Any]]


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str]) -> Evaluate:
    def run(*argv: str | Path, status: int = 0) -> dict[str, Any]:
        assert main([*map(str, argv), "--json"]) == status
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        return told

    return run


def test_folds(tmp_path: Path, evaluate: Evaluate) -> None:
    """Held out in folds, what can be known is found: the router is far above random, and below the oracle."""
    data = write(tmp_path / "pairs.jsonl.gz", pairs(320, seed=1))
    (one,) = evaluate(data)["evaluations"]
    by_name = {ranking["name"]: ranking["apgr"] for ranking in one["report"]["rankings"]}
    assert one["how"] == "held out in 5 folds"
    assert by_name["random"]["value"] == 0.5
    assert 0.65 < by_name["router"]["low"] < by_name["router"]["value"] < by_name["oracle"]["value"]
    assert one["report"]["weak"]["cost"] is None
    assert one["latency"]["num_prompts"] == 320
    assert 0 < one["latency"]["p50_s"] <= one["latency"]["p99_s"]
    flips = {each["rewriting"]: each["flips"] for each in one["robustness"]}
    assert flips["upper case"]["num"] == 0 < flips["upper case"]["num_all"]


def test_artifact_from_elsewhere(tmp_path: Path, artifact: Path, evaluate: Evaluate) -> None:
    """All prompts are judged by a model that was fitted elsewhere, however few they are, each set by itself."""
    data = write(tmp_path / "pairs.jsonl", [*pairs(60, seed=1), *pairs(30, seed=2, name="quiz")])
    told = evaluate(data, "--artifact", artifact)["evaluations"]
    assert [(one["name"], one["report"]["num_prompts"]) for one in told] == [("exam", 60), ("quiz", 30)]
    assert told[0]["how"] == "by small-1"
    (quiz,) = evaluate(data, "--artifact", artifact, "--set", "quiz")["evaluations"]
    assert quiz["report"] == told[1]["report"]


def test_one_class(tmp_path: Path, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one arm never fails there is no AUC, and the rest is told."""
    data = write(tmp_path / "pairs.jsonl", [{**each, "strong_correct": True} for each in pairs(50, seed=1)])
    assert main([str(data), "--artifact", str(artifact), "--require", "auc=0.1"]) == 1
    shown = capsys.readouterr().out
    assert "—" in shown
    assert "missed exam: auc nan, at least 0.1" in shown


def test_training_elsewhere(tmp_path: Path, evaluate: Evaluate) -> None:
    """Fitted on one file and judged on another, without what both have."""
    seen = pairs(300, seed=1)
    data = write(tmp_path / "new.jsonl", [*seen[:20], *pairs(100, seed=2)])
    train = write(tmp_path / "seen.jsonl", seen)
    (one,) = evaluate(data, "--train", train)["evaluations"]
    assert one["how"] == "fitted on 300 other prompts; 20 near-duplicates of those are left out"
    assert one["report"]["num_prompts"] == 100
    assert main([str(train), "--train", str(train)]) == 1


def test_collected_outcomes(tmp_path: Path, artifact: Path, evaluate: Evaluate) -> None:
    """Outcomes of `route collect` have costs: the frontier runs from the fast arm's to the full one's."""
    rows = [
        OutcomeRow(
            prompt_id=str(each["number"]),
            domain="any",
            level=0,
            prompt=each["prompt"],
            arm=arm,
            model=f"{arm}-model",
            success=each[correct],
            answer="",
            num_input_tokens=1,
            num_output_tokens=1,
            cost=cost,
            created_at=0.0,
        )
        for each in pairs(50, seed=3)
        for arm, correct, cost in (("full", "strong_correct", 0.005), ("fast", "weak_correct", 0.001))
    ]
    data = write(tmp_path / "mine.jsonl", [as_members(row) for row in rows])
    (one,) = evaluate(data, "--artifact", artifact)["evaluations"]
    assert one["name"] == "mine"
    frontier = one["report"]["frontier"]
    assert (frontier[0]["cost"], frontier[-1]["cost"]) == (pytest.approx(0.001), pytest.approx(0.005))
    repeated = write(tmp_path / "again.jsonl", [as_members(row) for row in [*rows, rows[0]]])
    assert (
        read_tables(repeated).remarks[0].startswith("again: 1 outcomes of a prompt and an arm are repeated")
    )
    split = replace(rows[0], prompt="another")
    for lines, told in (
        ([*rows, split], "stands for two different prompts"),
        ([row for row in rows if row.arm == "fast"], "outcomes of fast alone"),
    ):
        path = write(tmp_path / "bad.jsonl", [as_members(row) for row in lines])
        assert main([str(path), "--artifact", str(artifact)]) == 1
        with pytest.raises(Exception, match=told):
            read_tables(path)


def test_required_figures(tmp_path: Path, artifact: Path, evaluate: Evaluate) -> None:
    """A bound that is met leaves the status 0, one that is missed makes it 1, and both are told."""
    data = write(tmp_path / "pairs.jsonl", pairs(80, seed=1))
    met = evaluate(data, "--artifact", artifact, "--require", "apgr=0.6,exam.brier=0.25")
    assert (met["is_met"], len(met["required"])) == (True, 2)
    missed = evaluate(data, "--artifact", artifact, "--require", "apgr=0.6,brier=0.001", status=1)
    assert [verdict["is_met"] for verdict in missed["required"]] == [True, False]


@pytest.mark.parametrize("text", ["apgr", "apgr=x", "speed=1", "=1"])
def test_no_bound(text: str) -> None:
    """What is no bound is said to be none."""
    with pytest.raises(BoundError):
        parse_bounds(text)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "no outcomes in it"),
        (["x"], ":1: no JSON object"),
        ([[1]], ":1: no JSON object"),
        ([{"a": 1}], "its first line is no outcome"),
        ([{"set": "exam", "subject": "s", "prompt": "p", "weak_correct": True}], ":1: no 'strong_correct'"),
        ([pairs(1, seed=0)[0] | {"weak_correct": None}], ":1: 'weak_correct' is None"),
        ([pairs(1, seed=0)[0] | {"prompt": 3}], ":1: 'prompt' is 3"),
        ([*pairs(2, seed=0), {"set": "exam"}], ":3: no 'subject'"),
        (pairs(100, seed=0), "outcomes of arm 'fast' are too few"),
        ([each | {"strong_correct": True} for each in pairs(300, seed=0)], "has only 0 failures"),
    ],
)
def test_what_cannot_be_evaluated(
    lines: list[Any], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the line, or what is missing, and the status is 1."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(line if line == "x" else json.dumps(line) + "\n" for line in lines))
    assert main([str(data)]) == 1
    assert told in capsys.readouterr().err


def test_wrong_use(tmp_path: Path, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not there is named: a file, a set, an arm, an artifact, a bound's set."""
    data = write(tmp_path / "pairs.jsonl", pairs(5, seed=0))
    for argv, status, told in (
        ([tmp_path / "none.jsonl"], 1, "cannot be read"),
        ([data, "--set", "quiz"], 1, "no set 'quiz'; there is exam"),
        ([data, "--arms", "fast,slow"], 1, "no outcomes of arm 'slow'"),
        ([data, "--arms", "full,fast"], 1, "its arms are fast, full"),
        ([data, "--artifact", data], 1, "not a router artifact"),
        ([data, "--artifact", "./none.npz"], 1, "none.npz: cannot be read"),
        ([data, "--artifact", "router@nowhere", "--home", tmp_path], 1, "router@nowhere"),
        ([data, "--artifact", artifact, "--require", "quiz.apgr=1"], 2, "there is no set 'quiz' here"),
    ):
        assert main(list(map(str, argv))) == status
        assert told in capsys.readouterr().err
    for argv in (["--require", "apgr"], ["--arms", "fast"], ["--embedding", "other"]):
        with pytest.raises(SystemExit, match="2"):
            main([str(data), *argv])


def test_report_without_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is computed it is said what to install."""
    monkeypatch.setattr(route_evaluate_plots.importlib.util, "find_spec", lambda name: None)
    assert main([str(tmp_path / "none.jsonl"), "--report", str(tmp_path)]) == 1
    assert "pip install 'tierwise[router-fit]'" in capsys.readouterr().err


def test_report(tmp_path: Path, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One page that needs no other file, and the same plots beside it; equal figures give equal plots."""
    pytest.importorskip("matplotlib")
    data = write(tmp_path / "pairs.jsonl", pairs(60, seed=1))
    for name in ("one", "two"):
        assert main([str(data), "--artifact", str(artifact), "--report", str(tmp_path / name)]) == 0
        assert f"report: {tmp_path / name / 'index.html'}" in capsys.readouterr().out
    plots = {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*.png")}
    assert set(plots) == {
        "exam_frontier.png",
        "exam_reliability_0_fast.png",
        "exam_reliability_1_full.png",
    }
    page = (tmp_path / "one" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert 'src="http' not in page
    for name, plot in plots.items():
        assert plot.startswith(b"\x89PNG")
        assert (tmp_path / "two" / name).read_bytes() == plot
