"""`tierwise bench speculation`: what it refuses, what it plans, and a whole run on a real llama.cpp."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadtests.speculation_bench import main
from tests.loadtests.test_engine_bench import servers_on, wait_until


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--draft", "ngram", "--engine", "vllm"], "--python PATH, the interpreter that has it, go together"),
        (["--draft", "ngram", "--draft", "ngram"], "two drafts have one name: write NAME=KIND"),
        (["--draft", "ngram", "--predictions", "q4=x"], "no such draft, only ngram"),
        (["--draft", "ngram", "--predictions", "ngram=absent.json"], "absent.json has no predictions"),
        (["--draft", "ngram", "--domains", "songs"], "there is no domain 'songs'"),
        (["--draft", "ngram", "--prompts", "absent.jsonl"], "absent.jsonl: cannot be read"),
    ],
)
def test_wrong_use(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started, each with the remedy."""
    assert main(argv) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would be asked, of our domains or of a file's; how often."""
    argv = ["no-such-model", "--draft", "ngram", "--draft", "q4=model,model=m", "--dry-run"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "32 prompts of copy, edit, reformat, prose: 288 answers of up to 96 tokens, on 3 servers" in out
    file = tmp_path / "prompts.jsonl"
    lines = [
        {"domain": domain, "level": 0, "prompt": f"How much is {n} and 1?", "answer": str(n + 1)}
        for domain, n in (("sums", 1), ("more", 2), ("sums", 3), ("sums", 4))
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert main([*argv, "--json", "--prompts", str(file), "--per-domain", "2", "--rounds", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["domain"] for each in told["prompts"]] == ["sums", "sums", "more"]
    assert told["num_answers"] == 9
    assert told["drafts"]["q4"] == {"type": "model", "model": "m"}


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_a_real_engine_says_the_same(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that drafts for itself is always right; look-ups are right where it goes in circles. Nothing differs."""
    argv = [str(tiny), "--draft", "ngram,match_tokens=2", "--draft", f"itself=model,model={tiny}", "--json"]
    argv += ["--domains", "copy,prose", "--per-domain", "1", "--rounds", "1", "--max-tokens", "24"]
    assert main(argv) in {0, 1}
    told = json.loads(capsys.readouterr().out)
    rows = {(row["draft"], row["domain"]): row for row in told["rows"]}
    assert len(rows) == 6
    assert told["differences"] == []
    assert all(row["num_same"] == row["num_prompts"] for row in rows.values())
    assert rows["itself", "all"]["acceptance"] == 1
    assert rows["itself", "all"]["accepted_share"] > 0.5
    assert rows["itself", "all"]["request"]["value"] > 0


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_a_draft_that_does_not_start_is_told(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the settings' own words."""
    assert main([str(tiny), "--draft", "ngram,max_tokens=900"]) == 1
    assert "less than or equal to 64" in capsys.readouterr().err


@pytest.mark.engines
@pytest.mark.timeout(300)
def test_ctrl_c_ends_the_servers(tiny: Path) -> None:
    """In the middle of an answer: status 130, and no process left."""
    heeds = "import signal, tierwise; signal.signal(signal.SIGINT, signal.default_int_handler); exit(tierwise.main())"
    argv = ["bench", "speculation", str(tiny), "--draft", "ngram", "--rounds", "1000"]
    with subprocess.Popen([sys.executable, "-c", heeds, *argv], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: len(servers_on(tiny)) == 2, timeout_s=120)
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
    wait_until(lambda: not servers_on(tiny))
