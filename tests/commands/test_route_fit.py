"""`tierwise route fit`: what it writes, publishes, prints and refuses."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.artifact import from_bytes
from router.encoding import feature_names
from router.outcome_table import view_of
from serving.commands import route
from serving.registry.manifest import Description
from serving.registry.reference import parse_alias
from serving.registry.store import Store

Run = Callable[..., tuple[int, str, str]]
EASY = ["name", "colour", "animal", "city", "river", "song"]
HARD = ["prove", "integral", "matrix", "theorem", "compute", "lemma"]


def rows(num: int, arms: Sequence[str] = ("fast", "full"), **members: Any) -> list[dict[str, Any]]:
    """Collected outcomes: the fast arm fails on hard words."""
    generator = np.random.default_rng(0)
    written = []
    for place in range(num):
        is_hard = generator.random() < 0.5
        prompt = " ".join(generator.choice(HARD if is_hard else EASY, 12))
        for arm in arms:
            p = 0.85 if arm == "full" or not is_hard else 0.2
            written.append(
                {
                    "prompt_id": f"p/{place}",
                    "domain": "hard" if is_hard else "easy",
                    "level": 0,
                    "prompt": prompt,
                    "arm": arm,
                    "model": f"{arm}-model",
                    "success": bool(generator.random() < p),
                    "answer": "x",
                    "num_input_tokens": 10,
                    "num_output_tokens": 20,
                    "cost": 2.0 if arm == "full" else 1.0,
                    "created_at": 0.0,
                }
                | members
            )
    return written


def write(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the verb with a home of its own; exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIERWISE_CONFIG", raising=False)

    def call(*argv: object) -> tuple[int, str, str]:
        status = route.main(["fit", *map(str, argv), "--home", str(tmp_path / "home")])
        return status, *capsys.readouterr()

    return call


def test_writes_one_file_that_forecasts(run: Run, tmp_path: Path) -> None:
    """The file holds the model and its header; figures are printed for each arm; nothing else is left behind."""
    outcomes, out = write(tmp_path / "outcomes.jsonl", rows(240)), tmp_path / "made" / "router.npz"
    status, shown, _ = run(outcomes, "--out", out, "--folds", "3")
    assert status == 0
    assert [path.name for path in out.parent.iterdir()] == ["router.npz"]
    model, header = from_bytes(out.read_bytes())
    assert header.models == {"fast": "fast-model", "full": "full-model"}
    assert set(header.feature_references) > set(feature_names())
    hard, easy = (model.contributions(view_of(" ".join(words * 2)))["words"] for words in (HARD, EASY))
    assert hard > 0 > easy
    assert all(word in shown for word in ("fast", "full", "ECE", "APGR", header.version, "router.npz"))


def test_same_outcomes_same_file(run: Run, tmp_path: Path) -> None:
    """Twice the same command writes the same bytes, from a packed file as from a plain one."""
    files = []
    for name in ("outcomes.jsonl", "outcomes.jsonl.gz"):
        outcomes = write(tmp_path / name, rows(220))
        assert run(outcomes, "--out", tmp_path / f"{name}.npz", "--folds", "2")[0] == 0
        files.append((tmp_path / f"{name}.npz").read_bytes())
    assert files[0] == files[1]


def test_publishes_with_what_it_was_made_from(run: Run, tmp_path: Path) -> None:
    """The manifest has kind, recipe, data hash, figures, and the tiers that the outcomes are of; the alias follows."""
    store = Store(tmp_path / "home" / "registry")
    tiers = {}
    for arm in ("fast", "full"):
        (tmp_path / f"{arm}-model.gguf").write_text(arm)
        description = Description(kind="base", name=arm, licence="MIT", format="gguf")
        tiers[arm] = store.publish(tmp_path / f"{arm}-model.gguf", description).reference
        store.aliases.point(parse_alias(f"{arm}@stable"), tiers[arm], by="test")
    outcomes = write(tmp_path / "outcomes.jsonl", rows(240))
    status, shown, _ = run(outcomes, "--publish", "router@canary", "--json", "--folds", "3")
    assert status == 0
    told, manifest = json.loads(shown), store.load("router@canary").manifest
    assert told["kept"] == [str(manifest.reference)]
    assert (manifest.kind, manifest.format) == ("router", "router")
    assert manifest.data_sha256 == told["data_sha256"]
    assert manifest.recipe["num_folds"] == 3
    assert manifest.metrics["fast"]["auc"] == told["figures"]["fast"]["auc"] > 0.6
    assert {parent.role: parent.reference for parent in manifest.parents} == tiers


def test_public_outcomes_by_set(run: Run, tmp_path: Path) -> None:
    """A file of pairs is read as the arms fast and full, one set at a time."""
    generator = np.random.default_rng(1)
    pairs = [
        {
            "set": name,
            "subject": "s",
            "prompt": " ".join(generator.choice(HARD + EASY, 10)),
            "weak_correct": bool(generator.random() < 0.4),
            "strong_correct": bool(generator.random() < 0.8),
        }
        for name in ("one", "two")
        for _ in range(220)
    ]
    outcomes = write(tmp_path / "pairs.jsonl.gz", pairs)
    status, shown, _ = run(outcomes, "--set", "one", "--json", "--folds", "2")
    assert status == 0
    told = json.loads(shown)
    assert (told["arms"], told["num_prompts"], told["kept"]) == (["fast", "full"], 220, [])
    assert run(outcomes)[0::2] == (
        1,
        f"tierwise: {outcomes}: holds several sets; take one with --set: one, two\n",
    )
    status, _, said = run(outcomes, "--set", "three")
    assert (status, "no set 'three'; there are one, two" in said) == (1, True)


@pytest.mark.parametrize(
    ("records", "argv", "message"),
    [
        (rows(50), (), "50 outcomes of arm 'fast' are too few for a model; collect at least 200"),
        (rows(220, success=True), (), "has only 0 failures among 220 outcomes"),
        (rows(220), ("--arms", "fast,other"), "no outcomes of arm 'other'; there are fast, full"),
        ([], (), "no outcomes in it"),
        ([{"prompt": "x"}], (), "its first line is no outcome"),
        (rows(220), ("--set", "gsm8k"), "collected outcomes are in no sets"),
        (rows(2) + rows(2, model="b"), (), "the answers of fast come from several models (b, fast-model)"),
        (rows(220), ("--embedding", "wordllama"), "pip install 'tierwise[router-fit]'"),
    ],
)
def test_refusals(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: list[dict[str, Any]],
    argv: tuple[str, ...],
    message: str,
) -> None:
    """What no honest model can be made of is refused in one line with what is missing, and nothing is written."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    out = tmp_path / "router.npz"
    status, _, said = run(write(tmp_path / "outcomes.jsonl", records), "--out", out, *argv)
    assert status == 1
    assert message in said
    assert "Traceback" not in said
    assert not out.exists()


def test_no_such_file(run: Run, tmp_path: Path) -> None:
    """A file that is not there, and a place that cannot be written, end with status 1."""
    status, _, said = run(tmp_path / "none.jsonl")
    assert (status, "cannot be read" in said) == (1, True)
    (tmp_path / "file").write_text("")
    outcomes = write(tmp_path / "outcomes.jsonl", rows(220))
    status, _, said = run(outcomes, "--out", tmp_path / "file" / "router.npz", "--folds", "2")
    assert (status, "cannot be written" in said) == (1, True)


@pytest.mark.parametrize(
    "argv", [("--folds", "1"), ("--penalty", "0"), ("--publish", "Router!"), ("--publish", "router:v1")]
)
def test_wrong_use(run: Run, argv: tuple[str, ...]) -> None:
    """Values that make no sense are wrong use."""
    with pytest.raises(SystemExit) as ended:
        run(*argv)
    assert ended.value.code == 2
