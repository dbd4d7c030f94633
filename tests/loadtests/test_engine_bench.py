"""`tierwise bench engine`: what it refuses, what it plans, and a whole search on a real llama.cpp."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gguf import GGUFWriter

from loadtests.engine_bench import main
from loadtests.engine_options import parser
from loadtests.tuning.figures import Objective
from serving.engines.llamacpp import LlamaCppSettings
from serving.settings_sources import load_settings

TINY = ["--set", "slots=4", "--only", "compute.repack"]


@pytest.fixture
def header(tmp_path: Path) -> Path:
    """A GGUF file without tensors: enough to be described."""
    path = tmp_path / "header.gguf"
    writer = GGUFWriter(path, "llama")
    for key, value in {"context_length": 2048, "block_count": 2, "embedding_length": 64}.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_a_dry_run_starts_nothing(header: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The space without what is laid down or lossy, and how long it would take."""
    argv = [str(header), "--tune", "--dry-run", "--set", "slots=4"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "compute.flash_attention    default auto     tried off, on" in out
    assert "slots" not in out
    assert "kv_cache" not in out
    assert "min where none pays" in out
    assert main([*argv, "--json", "--allow-lossy"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["space"]["compute.kv_cache_type"] == {"default": "f16", "tried": ["q8_0"]}
    assert told["confirm_min"] > 0


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["--tune", "--dry-run", "--only", "prio"], 2, "prio cannot be tuned here; what can is "),
        (["--tune", "--engine", "vllm"], 2, "--python PATH, the interpreter that has it, go together"),
        (["--tune", "--python", "python"], 2, "go together"),
        (["--tune", "--dry-run", "--set", "slots=900"], 1, "less than or equal to 256"),
        (["--tune", "--dry-run", "--set", "compute.repak=true"], 1, "did you mean 'repack'?"),
    ],
)
def test_wrong_use(
    argv: list[str], status: int, message: str, header: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is told with the remedy; the settings' own words where they refuse."""
    assert main([str(header), *argv]) == status
    assert message in capsys.readouterr().err


def test_a_file_is_not_written_over(header: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is seen before hours were spent."""
    (tmp_path / "tuned.toml").touch()
    assert main([str(header), "--tune", "--out", str(tmp_path / "tuned.toml")]) == 2
    assert "exists: name another file with --out" in capsys.readouterr().err


def test_no_such_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `tierwise engine` says it."""
    assert main([str(tmp_path / "none.gguf")]) == 1
    assert "none.gguf" in capsys.readouterr().err


def test_options() -> None:
    """Values are TOML's, or text; the objective is one of three."""
    argv = ["m", "--set", "slots=4", "--set", "compute.repack=false", "--set", "compute.load=copy"]
    args = parser().parse_args([*argv, "--objective", "streams=16"])
    assert args.fixed == [("slots", 4), ("compute.repack", False), ("compute.load", "copy")]
    assert args.objective is Objective.STREAMS
    for wrong in (["--set", "slots"], ["--set", "a=[1]"], ["--objective", "speed"]):
        with pytest.raises(SystemExit):
            parser().parse_args(["m", *wrong])


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_a_real_engine_is_tuned(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is written loads as a tier, whatever was found; no server is left."""
    out = tmp_path / "tuned.toml"
    argv = [str(tiny), "--tune", *TINY, "--minutes", "30", "--out", str(out), "--tier", "quick", "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    (candidate,) = told["candidates"]
    assert candidate["setting"] == {"compute.repack": False}
    assert candidate["num_rounds"] >= 2 or not candidate["keeps_answers"]
    assert candidate["verdict"] in {"ahead", "no gain beyond noise", "other greedy answers: lossy"}
    assert all(value > 0 for value in told["default"].values())
    engine = load_settings(out, {}, {}).tiers["quick"].engine
    assert isinstance(engine, LlamaCppSettings)
    assert engine.slots == 4
    assert engine.compute.repack is (False if told["best"] else None)
    assert told["outcome"] in out.read_text()
    assert not servers_on(tiny)


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_ctrl_c_ends_the_servers_and_writes(tiny: Path, tmp_path: Path) -> None:
    """Status 130, what was found so far on the disk, and no process left."""
    out = tmp_path / "tuned.toml"
    with searching(tiny, out) as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted before it was confirmed" in out.read_text()
    assert load_settings(out, {}, {}).tiers["tuned"].model == str(tiny)
    wait_until(lambda: not servers_on(tiny))


@pytest.mark.engines
@pytest.mark.timeout(600)
def test_servers_do_not_outlive_a_killed_search(tiny: Path, tmp_path: Path) -> None:
    """Killed, it can end nothing any more; they end by themselves."""
    with searching(tiny, tmp_path / "tuned.toml") as process:
        process.kill()
        process.communicate(timeout=120)
    wait_until(lambda: not servers_on(tiny))


@contextmanager
def searching(model: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """A search whose servers are up; Ctrl-C reaches it also where this process itself was told to ignore it."""
    heeds = "import signal, tierwise; signal.signal(signal.SIGINT, signal.default_int_handler); exit(tierwise.main())"
    argv = ["bench", "engine", str(model), "--tune", *TINY, "--minutes", "30", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", heeds, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "the default:" in line:
                    break
            wait_until(lambda: bool(servers_on(model)))
            yield process
        finally:
            process.kill()


def servers_on(model: Path) -> list[int]:
    """Processes of the engine inside that have this model."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(model) in words and b"serving.engines.llamacpp_server" in words:
            found.append(int(path.parent.name))
    return found


def wait_until(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    give_up = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.1)
