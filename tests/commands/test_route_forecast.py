"""`tierwise route forecast`: a line in, the gateway's own forecast out, in order."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from serving.commands import route

RELEASED = Path(__file__).parents[2] / "router/data/router.npz"


@pytest.fixture(autouse=True)
def _shipped_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tierwise.toml in the working directory, no configuration in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIERWISE_CONFIG", raising=False)


def test_every_prompt_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers as `explain` has, weakest arm first; other members and empty lines do not matter."""
    prompts = ["Calculate 1 + 3. Answer with the number only.", "Prove that √2 is irrational."]
    lines = [json.dumps({"prompt": prompt, "domain": "x"}) for prompt in prompts]
    (tmp_path / "prompts.jsonl").write_text("\n\n".join(lines))
    options = ["--set", f"router.artifact={RELEASED}", "--home", str(tmp_path)]
    assert route.main(["forecast", "prompts.jsonl", *options]) == 0
    said = capsys.readouterr()
    told = [json.loads(line) for line in said.out.splitlines()]
    assert len(told) == 2
    assert "fitted on" in said.err
    for prompt, line in zip(prompts, told, strict=True):
        assert list(line["probabilities"]) == ["fast", "full"]
        assert route.main(["explain", prompt, "--json", *options]) == 0
        for candidate in json.loads(capsys.readouterr().out)["candidates"]:
            shown = line["probabilities"][candidate["arm"]]
            assert shown == pytest.approx(candidate["success_probability"], abs=1e-5)


def test_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line without a prompt is named, a file that is not there too, and a router that is none."""
    home = ["--home", str(tmp_path)]
    monkeypatch.setattr("sys.stdin", io.StringIO('{"prompt": "hi"}\n{"text": "hi"}\n'))
    assert route.main(["forecast", "-", *home]) == 1
    assert route.main(["forecast", "none.jsonl", *home]) == 1
    assert route.main(["forecast", "-", *home, "--set", "router.artifact=./none.npz"]) == 2
    said = capsys.readouterr().err
    assert all(each in said for each in ("line 2 holds no prompt", "none.jsonl cannot be read", "none.npz"))
