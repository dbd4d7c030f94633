"""`tierwise engine`: says how a tier's engine would be started and why, and does not betray its key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gguf import GGUFWriter

from serving.commands import engine


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tiers on a small model, and one that runs elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIERWISE_CONFIG", raising=False)
    writer = GGUFWriter(tmp_path / "small.gguf", "llama")
    for key, value in {"context_length": 2048, "block_count": 2, "embedding_length": 64}.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    path = tmp_path / "tierwise.toml"
    path.write_text(
        f"""
home = "{tmp_path / "home"}"
[tiers.fast]
model = "{tmp_path / "small.gguf"}"
engine = {{ type = "llamacpp", slots = 3 }}
price = {{ input = 1, output = 1 }}
[tiers.lost]
model = "{tmp_path / "absent.gguf"}"
engine = {{ type = "llamacpp" }}
price = {{ input = 1, output = 1 }}
[tiers.hosted]
engine = {{ type = "external", urls = ["https://api.example.com/v1"], model = "gpt", api_key_env = "HOSTED_KEY" }}
price = {{ input = 1, output = 1 }}
"""
    )
    return path


def test_describe(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line, the choices with their reasons, and where the log goes; the key is not shown."""
    assert engine.main(["describe", "--tier", "fast"]) == 0
    out = capsys.readouterr().out
    assert "serving.engines.llamacpp_server --model" in out
    assert "--slots 3 --context-tokens 2048" in out
    assert "TIERWISE_ENGINE_KEY=<drawn for each start>" in out
    words = [line.split() for line in out.splitlines()]
    assert ["slots", "3", "set"] in words
    assert ["context_tokens", "2,048", "the", "model's", "2,048"] in words
    assert f"its log  {config.parent / 'home' / 'logs' / 'fast.log'}" in out


def test_describe_follows_the_command_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A setting can be tried before it is written down."""
    assert engine.main(["describe", "--tier", "fast", "--set", "tiers.fast.engine.slots=7"]) == 0
    assert "--slots 7" in capsys.readouterr().out


def test_describe_tells_of_a_draft(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one is set: what it proposes, and what it costs."""
    tiny = config.parent / "small.gguf"
    argv = ["describe", "--tier", "fast", "--set", "tiers.fast.engine.draft.type=model"]
    assert engine.main([*argv, "--set", f"tiers.fast.engine.draft.model={tiny}"]) == 0
    out = capsys.readouterr().out
    assert f"--draft-model {tiny}" in out
    assert f"{tiny}: up to 3 tokens; no log-probabilities" in out
    assert (
        engine.main(["describe", "--json", "--tier", "fast", "--set", "tiers.fast.engine.draft.type=ngram"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["draft"] == {
        "type": "ngram",
        "match_tokens": 3,
        "max_tokens": 8,
    }


def test_describe_what_runs_elsewhere(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An external tier has no command line; where it is and which variable holds its key is told."""
    assert engine.main(["describe", "--tier", "hosted"]) == 0
    out = capsys.readouterr().out
    assert "runs already, at https://api.example.com" in out
    assert "$HOSTED_KEY" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["describe", "--tier", "nope"], "no tier 'nope'; the configuration has fast, lost, hosted"),
        (["describe", "--tier", "lost"], "absent.gguf"),
        (["run", "--tier", "lost"], "absent.gguf"),
        (["run", "--tier", "hosted"], "runs already, at https://api.example.com: there is nothing to start"),
        (["run", "--tier", "fast", "--set", "tiers.fast.engine.context_tokens=9999"], "trained on 2,048"),
    ],
)
def test_one_line_with_the_remedy(
    config: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    """What cannot be done ends with status 1 and a line on standard error."""
    assert engine.main(argv) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("tierwise: ")
    assert "Traceback" not in captured.err


@pytest.mark.timeout(60)
def test_run_a_model_that_is_only_a_header(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real engine is started, refuses weights that are not there, and its refusal is told with what to do."""
    assert engine.main(["run", "--tier", "fast"]) == 1
    err = capsys.readouterr().err
    assert "the engine of the fast tier does not start" in err
    assert "it last said" in err


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["describe", "--help"]])
def test_help_shows_examples(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each help ends with commands to copy."""
    with pytest.raises(SystemExit) as done:
        engine.main(argv)
    assert done.value.code == 0
    assert "tierwise engine " in capsys.readouterr().out.split("examples:")[1]


def test_describe_for_programs(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as one JSON object, and nothing beside it; no key."""
    settings = [
        "--set",
        "tiers.fast.engine.threads_alone=3",
        "--set",
        "tiers.fast.engine.compute.repack=false",
    ]
    assert engine.main(["describe", "--tier", "fast", "--json", *settings]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == str(config.parent / "small.gguf")
    assert told["plan"]["slots"] == 3
    assert (told["plan"]["threads_alone"], told["plan"]["reasons"]["threads_alone"]) == (3, "set")
    assert "--no-repack" in told["argv"]
    assert engine.main(["describe", "--tier", "hosted", "--json"]) == 1
