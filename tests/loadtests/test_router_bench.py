"""`tierwise bench router`: what is timed, how it is judged, and texts of the lengths that were asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtests import router_bench
from loadtests.router_bench import main
from loadtests.router_texts import FORMS, view_of_form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_chars", [100, 4000])
def test_texts(form: str, num_chars: int) -> None:
    """A request has the form's length, the same for the same seed and another for another."""
    view = view_of_form(form, num_chars, seed=1)
    assert view.num_chars == num_chars
    assert sum(map(len, view.turns)) in (num_chars, num_chars // 2)
    assert view == view_of_form(form, num_chars, seed=1) != view_of_form(form, num_chars, seed=2)


def test_released_artifact_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every form at every length has its times, and a stage takes no longer than what it is a part of."""
    assert main(["--decisions", "4", "--sizes", "100,4000", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {(each["form"], each["num_chars"]) for each in report["timings"]} == {
        (form, size) for form in FORMS for size in (100, 4000)
    }
    assert all(0 < each["p50_s"] <= each["p99_s"] for each in report["timings"])
    assert all(each["reading_p50_s"] > 0 for each in report["timings"])
    (bound,) = report["bounds"]
    assert bound["measured_s"] == max(
        each["p99_s"] for each in report["timings"] if each["num_chars"] == 4000
    )


def test_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A missed bound is told, and makes the status 1 only where it is checked."""
    argv = ["--decisions", "2", "--sizes", "4000"]
    monkeypatch.setattr(router_bench, "MAX_DECISION_S", 0.0)
    assert main(argv) == 0
    assert "missed: p99 of a decision" in capsys.readouterr().out
    assert main([*argv, "--check"]) == 1
    monkeypatch.setattr(router_bench, "MAX_DECISION_S", 60.0)
    assert main([*argv, "--check"]) == 0
    assert "met: p99 of a decision" in capsys.readouterr().out


def test_no_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, or no artifact, is named."""
    assert main(["--artifact", str(tmp_path / "none.npz")]) == 1
    (tmp_path / "bad.npz").write_bytes(b"x")
    assert main(["--artifact", str(tmp_path / "bad.npz")]) == 1
    told = capsys.readouterr().err
    assert "none.npz" in told
    assert "not a router artifact" in told
