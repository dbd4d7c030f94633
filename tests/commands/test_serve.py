"""`tierwise serve` as a person meets it: what it says, what it refuses to start, and that it serves."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from serving.commands import serve
from serving.gateway.keys import KeyStore
from serving.settings_sources import load_settings
from tests.fakes import MockUpstream
from tests.live_gateway import config_file, serving_process


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tier where nobody listens; the home is a directory of the test."""
    monkeypatch.setenv("TIERWISE_HOME", str(tmp_path / "home"))
    return config_file(tmp_path / "t.toml", {"fast": "http://127.0.0.1:1"})


def run(*arguments: str) -> int:
    return serve.main(list(arguments))


def test_print_config_is_the_resolved_tree(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is TOML, holds what options and --set say, resolves to itself, and starts nothing."""
    assert run("--config", config, "--port", "8123", "--set", "gateway.max_queue=3", "--print-config") == 0
    printed = tmp_path / "printed.toml"
    printed.write_text(capsys.readouterr().out)
    told = load_settings(printed)
    assert (told.gateway.port, told.gateway.max_queue) == (8123, 3)
    assert told == load_settings(Path(config), {"gateway.port": 8123, "gateway.max_queue": 3})
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--set", "gateway.prot=1"],
            "gateway.prot (command line, gateway.prot): unknown key; did you mean 'port'?",
        ),
        (
            ["--port", "99999"],
            "gateway.port (command line, gateway.port): Input should be less than or equal to 65535",
        ),
        (["--config", "/no/such.toml"], "/no/such.toml: no such file; name a TOML file with --config"),
        (
            ["--host", "0.0.0.0"],
            "0.0.0.0 is not loopback, and there is no API key yet: make one with `tierwise keys",
        ),
        (["--host", "192.0.2.1"], "there is no API key yet"),
        (["--set", "gateway.require_key=true"], "gateway.require_key is on, and there is no API key yet"),
        (["--set", "tiers.fast.engine.api_key_env=NOT_SET_HERE", "--port", "0"], "$NOT_SET_HERE is not set"),
        (["--set", "ledger.url=nonsense://x", "--port", "0"], "nonsense"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    """Exit status 1, one line on standard error that names the remedy, no traceback."""
    assert run("--config", config, *arguments) == 1
    said = capsys.readouterr().err
    assert told in said
    assert said.startswith("tierwise: ")
    assert len(said.splitlines()) == 1


def test_a_set_without_a_value_is_told_how_to_write_it(config: str) -> None:
    """`--set gateway.port` ends with an example."""
    with pytest.raises(SystemExit, match="KEY=VALUE"):
        run("--config", config, "--set", "gateway.port")


def test_a_port_that_is_taken(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The address, the reason and another port, before anything slow begins."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert run("--config", config, "--port", str(port)) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(rf"tierwise: cannot listen on 127.0.0.1:{port}: .*in use; .*--port \d+\)\n", said)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_only_loopback_needs_no_key(tmp_path: Path, host: str, is_loopback: bool) -> None:
    """Every address that others can reach asks for keys, and so does loopback where it is told to."""
    config = Path(config_file(tmp_path / "t.toml", {"fast": "http://127.0.0.1:1"}))
    KeyStore(tmp_path / "keys.json").create("tester")
    for requires in (False, True):
        overrides = {"gateway.host": host, "gateway.require_key": requires, "home": tmp_path}
        keys = serve.keys_of(load_settings(config, overrides, {}))
        assert (keys is None) is (is_loopback and not requires)


@pytest.mark.parametrize("arguments", [["serve"], ["up"]])
def test_help_teaches(arguments: list[str]) -> None:
    """--help tells where settings come from and shows them set."""
    done = subprocess.run(
        [sys.executable, "-m", "tierwise", *arguments, "--help"], capture_output=True, text=True, check=True
    )
    assert "defaults < one TOML file < environment < command line" in done.stdout
    assert "--set" in done.stdout


async def test_it_serves_as_it_says(tmp_path: Path) -> None:
    """The banner's curl line, with the key where keys are asked for, gets an answer; nothing goes without a key."""
    KeyStore(tmp_path / "keys.json").create("other")
    key = KeyStore(tmp_path / "keys.json").create("tester")
    async with MockUpstream() as upstream:
        config = config_file(tmp_path / "t.toml", {"fast": upstream}, require_key=True)
        async with serving_process("--config", config, cwd=tmp_path) as running:
            command = running.output[running.output.index("curl ") : running.output.index("  health")]
            words = shlex.split(command.replace("\\\n", " ").replace("<key>", key))
            headers = dict(words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H")
            async with httpx.AsyncClient() as client:
                answer = await client.post(words[1], headers=headers, content=words[words.index("-d") + 1])
                assert answer.status_code == 200, answer.text
                assert answer.json()["choices"][0]["message"]["content"]
                refused = await client.post(words[1], json={})
                assert refused.status_code == 401
            running.process.terminate()
            assert await running.ended() == 0
            assert running.process.stderr is not None
            log = (await running.process.stderr.read()).decode()
    assert '"status":200' in log.replace(" ", "")
    assert key not in log + running.output


async def test_a_tier_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    """An upstream that is not up yet is asked again, with the gateway alive and not ready meanwhile."""
    async with MockUpstream() as upstream:
        await upstream.stop()
        config = config_file(tmp_path / "t.toml", {"fast": upstream})
        async with serving_process("--config", config, cwd=tmp_path, waits=False) as running:
            stdout = running.process.stdout
            assert stdout is not None
            assert b"router: heuristic" in await asyncio.wait_for(stdout.readline(), 60)
            assert b"asking again every second" in await asyncio.wait_for(stdout.readline(), 20)
            await upstream.start()
            said = b""
            while b"Ctrl-C" not in said:
                said += await asyncio.wait_for(stdout.readline(), 20)
            assert b"tierwise serves on" in said
