"""`tierwise distill draft` and `cost-model` on a tiny target: one's output is the other's input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from distill.commands import cost_model, distill
from distill.drafts.head_run import SPECULATOR_NAME
from serving.engines.llamacpp_draft import is_head
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
from tests.train.model.tiny import tiny_shape

torch.set_num_threads(1)
TIMES = {
    "engine": "none",
    "target_s": {"1": 1.0, "2": 1.1, "3": 1.2, "4": 1.3, "6": 1.5},
    "draft_s": {"1": 0.3},
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "tiny", tiny_shape(vocab_size=80, num_layers=7, max_positions=1024))
    return tmp_path / "tiny"


def _recipe(tiny: Path, place: Path) -> Path:
    place.write_text(
        'name = "mine"\nabout = "for tests"\n'
        "draft_vocab_size = 40\nnum_depths = 2\nnum_drafts = 2\nnum_steps = 2\n"
        "num_threads = 1\ncheckpoint_every_steps = 1\n"
        f'base = {{type = "artifact", source = "{tiny}"}}\ndomains = [{{name = "chain_sum"}}]\n'
        "[texts]\nitems_per_domain = 3\nnum_general = 2\nmax_answer_tokens = 6\n"
    )
    return place


def test_from_head_to_verdict(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A head is trained, resumed, measured and judged, by commands alone."""
    recipe, out = str(_recipe(tiny, tmp_path / "r.toml")), str(tmp_path / "head")
    train = ["draft", "train", recipe, "--out", out, "--home", str(tmp_path / "home")]
    assert distill.main(train) == 0
    assert distill.main([*train, "--resume"]) == 0
    speculator = str(tmp_path / "head" / SPECULATOR_NAME)
    assert "tokens a round" in capsys.readouterr().err
    assert str(tmp_path) not in (tmp_path / "head" / SPECULATOR_NAME / "config.json").read_text()
    export = ["draft", "export", speculator, "--target", str(tiny), "--out", str(tmp_path / "head.gguf")]
    assert distill.main([*export, "--home", str(tmp_path / "home")]) == 0
    assert is_head(tmp_path / "head.gguf")
    assert distill.main([*export, "--home", str(tmp_path / "home")]) == 1
    assert "there already" in capsys.readouterr().err
    options = ["--domains", "chain_sum,gcd", "--items", "2", "--drafts", "2", "--max-answer-tokens", "6"]
    options += ["--threads", "1", "--home", str(tmp_path / "home")]
    for draft in (speculator, "ngram", str(tiny)):
        assert distill.main(["draft", "measure", str(tiny), "--draft", draft, *options]) == 0
        (tmp_path / "a.json").write_text(capsys.readouterr().out)
        told = json.loads((tmp_path / "a.json").read_text())
        assert [each["domain"] for each in told["acceptance"]] == ["chain_sum", "gcd"]
        assert all(len(each["places"]) == 2 for each in told["acceptance"])
        judge = ["cost-model", str(tiny), "--draft", draft, "--acceptance", str(tmp_path / "a.json")]
        status = distill.main([*judge, "--drafts", "1,2", "--threads", "1", "--home", str(tmp_path / "home")])
        verdict = json.loads(capsys.readouterr().out)
        assert status == (0 if verdict["pays"] else 1)
        assert set(verdict["times"]["target_s"]) == {"1", "2", "3"}
    # the last was the target as its own draft
    assert told["acceptance"][0]["places"][1]["conditional"] == pytest.approx(1)


def test_what_a_head_would_take(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run tells time and bytes, and writes nothing; the recipe is printed as it is resolved."""
    home = ["--home", str(tmp_path / "home")]
    assert distill.main(["draft", "train", "head_smoke", "--dry-run", *home]) == 0
    said = capsys.readouterr().out
    assert all(each in said for each in ("exported, bfloat16", "6 of", "states on disk", "altogether"))
    assert not list(tmp_path.glob("**/recipe.json"))
    assert distill.main(["draft", "train", "head_smoke", "--print-config", "--set", "num_steps=9"]) == 0
    assert json.loads(capsys.readouterr().out)["num_steps"] == 9
    assert distill.main(["draft", "train", "head_smoke"]) == 2
    assert "--out RUN" in capsys.readouterr().err


def _judged(
    capsys: pytest.CaptureFixture[str], path: Path, acceptance: str
) -> tuple[int, dict[str, Any], str]:
    status = cost_model.main(["--measurements", str(path), "--acceptance", acceptance])
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


def test_measurements_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times of a file, or of an earlier verdict; the refusal comes with the table, and with status 1."""
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    status, told, _ = _judged(capsys, tmp_path / "times.json", "sums=0.9")
    assert status == 0
    three = next(each for each in told["predictions"] if each["num_drafts"] == 3)
    assert three["speed_ups"]["sums"] == pytest.approx((1 + 0.9 + 0.81 + 0.729) / (3 * 0.3 + 1.3))
    (tmp_path / "verdict.json").write_text(json.dumps(told))
    status, told, said = _judged(capsys, tmp_path / "verdict.json", "prose=0.1,0.0")
    assert status == 1
    assert told["pays"] == {}
    assert "break-even" in said
    assert "pays nowhere" in said


def test_what_is_often_not_proposed_costs_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `draft measure` and `bench speculation` tell it: the share is that of the first place."""
    places = [{"conditional": 0.2, "proposed_share": 0.25}, {"conditional": 0.9, "proposed_share": 0.2}]
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    (tmp_path / "a.json").write_text(json.dumps({"acceptance": [{"domain": "copy", "places": places}]}))
    _, told, _ = _judged(capsys, tmp_path / "times.json", str(tmp_path / "a.json"))
    two = next(each for each in told["predictions"] if each["num_drafts"] == 2)
    drafting = 2 * two["draft_cost"] + two["verify_cost"]
    assert two["speed_ups"]["copy"] == pytest.approx((1 + 0.2 + 0.18) / (0.25 * drafting + 0.75))
    assert told["proposed_shares"] == {"copy": 0.25}


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing, twice there or no acceptance is named."""
    with pytest.raises(SystemExit, match="2"):
        cost_model.main(["--acceptance", "a=0.5"])
    with pytest.raises(SystemExit, match="2"):
        cost_model.main(["smollm2", "--acceptance", "a=0.5"])
    (tmp_path / "times.json").write_text(json.dumps(TIMES))
    twice = [{"domain": "a", "places": [{"conditional": 0.5, "proposed_share": 1}]}] * 2
    (tmp_path / "twice.json").write_text(json.dumps({"acceptance": twice}))
    for acceptance, said in (
        (str(tmp_path / "twice.json"), "keep the entries of one draft"),
        ("none.json", "is no acceptance"),
        ("a=2", "between 0 and 1"),
        ("a=x", "no acceptance"),
    ):
        status = cost_model.main(["--measurements", str(tmp_path / "times.json"), "--acceptance", acceptance])
        assert status == 1
        assert said in capsys.readouterr().err
    assert cost_model.main(["--measurements", str(tmp_path / "none"), "--acceptance", "a=0.5"]) == 1
    assert "has no step times" in capsys.readouterr().err
    assert distill.main(["draft", "trian"]) == 2
    assert "did you mean `train`" in capsys.readouterr().err
