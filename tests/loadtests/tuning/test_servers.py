"""What servers are started with, without starting one."""

from __future__ import annotations

from pathlib import Path

from loadtests.tuning.servers import _last_line, _ready, tier_config, vllm_argv


def test_dotted_names_are_tables() -> None:
    """A knob below `compute` stands in that table."""
    tree = tier_config("quick", "m.gguf", {"slots": 4, "compute.repack": False, "compute.load": "copy"})
    engine = tree["tiers"]["quick"]["engine"]
    assert engine == {"type": "llamacpp", "slots": 4, "compute": {"repack": False, "load": "copy"}}


def test_command_line_of_vllm() -> None:
    """Names in capitals are variables; true and false are flags; the rest has values. It listens on loopback alone."""
    setting = {
        "VLLM_CPU_KVCACHE_SPACE": 4,
        "enforce-eager": True,
        "enable-prefix-caching": False,
        "max-num-seqs": 16,
    }
    argv = vllm_argv(Path("/venv/bin/python"), "base", setting, port=1234)
    assert argv[:4] == ["env", "VLLM_NO_USAGE_STATS=1", "VLLM_CPU_KVCACHE_SPACE=4", "/venv/bin/python"]
    text = " ".join(argv)
    assert "--model base --served-model-name tuned --host 127.0.0.1 --port 1234" in text
    assert text.endswith("--enforce-eager --no-enable-prefix-caching --max-num-seqs 16")


def test_ready_is_read_off_the_log(tmp_path: Path) -> None:
    """The line that `tierwise engine run` tells a user to try."""
    log = tmp_path / "log"
    log.write_text("  threads 2\n")
    assert _ready(log) is None
    log.write_text("x\n  curl http://127.0.0.1:7/v1/chat/completions -H 'authorization: Bearer ab-c_' \\\n")
    assert _ready(log) == ("http://127.0.0.1:7", "ab-c_")


def test_the_last_words_of_a_server() -> None:
    """Blank lines say nothing."""
    assert _last_line("a\n b \n\n") == "b"
    assert _last_line("") == ""
