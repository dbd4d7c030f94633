"""`tierwise bench frontier`: on the real tiers at a tiny size, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtests import frontier_bench
from loadtests.frontier_bench import main
from loadtests.frontier_prompts import RELEASED_OUTCOMES, read_outcomes
from loadtests.frontier_tiers import Subject
from serving.settings_sources import load_settings

TINY = ["--prompts", "6", "--warm-up", "3", "--budgets", "0.5", "--rounds", "1", "--max-tokens", "8"]
MODELS = {"full": "full:1", "fast": "fast:1"}


def configured(monkeypatch: pytest.MonkeyPatch, data_sha256: str | None) -> None:
    """Tiers that are named and never started."""
    subject = Subject(models=MODELS, data_sha256=data_sha256, options=(), registry=Path("nowhere"))
    monkeypatch.setattr(frontier_bench, "subject_of", lambda options: subject)


@pytest.mark.engines
@pytest.mark.timeout(400)
def test_the_real_tiers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ends take their tier alone, costs are the ledger's at the tiers' prices, the figure is drawn, and a second run
    asks nothing again."""
    argv = [*TINY, "--resume", str(tmp_path / "run"), "--figure", str(tmp_path / "figure.png"), "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["num_prompts"], told["num_errors"]) == (6, {})
    assert told["always_fast"]["full_share"]["value"] == 0
    assert told["always_full"]["full_share"]["value"] == 1
    tiers = load_settings(None).tiers
    assert set(told["subject"]["models"]) == set(tiers)
    assert all("@" not in model for model in told["subject"]["models"].values())
    is_dearer = tiers["full"].price.input > tiers["fast"].price.input
    assert (told["always_full"]["cost"]["value"] > told["always_fast"]["cost"]["value"] > 0) is is_dearer
    assert told["routed"][0]["target"] == 0.5
    assert told["routers"][0].startswith("router-")
    assert set(told["reasons"]["always-full"]) == {"client_model"}
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")

    turns = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("turn-*.json")}
    assert len(turns) == 3
    assert main([*argv[:-1], "--markdown"]) == 0
    assert "| routed, 0.5 |" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in turns} == turns


def test_a_dry_run_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many requests there would be, 3 ways of 6 + 3, and leaves no directory behind."""
    configured(monkeypatch, read_outcomes(RELEASED_OUTCOMES).data_sha256)
    assert main([*TINY, "--dry-run", "--resume", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "full = full:1, fast = fast:1" in said
    assert "27 requests in 3 turns: about " in said
    assert not (tmp_path / "run").exists()


def test_other_outcomes_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a router that was fitted on something else nobody could say what it has not seen."""
    configured(monkeypatch, "0" * 64)
    assert main([*TINY, "--dry-run"]) == 1
    assert "name its own with --fitted-on" in capsys.readouterr().err


def test_an_end_that_is_no_tier(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    configured(monkeypatch, None)
    assert main([*TINY, "--fast", "small", "--dry-run"]) == 1
    assert "no tier 'small'; name the ends with --fast and --full: full, fast" in capsys.readouterr().err


@pytest.mark.parametrize("budgets", ["0", "1", "0.5,2", "half"])
def test_budgets_are_shares_between_the_ends(budgets: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--budgets", budgets])
