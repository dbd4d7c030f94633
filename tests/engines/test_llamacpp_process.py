"""The real engine as a process: up, asked, stopped, killed, orphaned, and fed with a damaged file."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from serving.engines.base import Endpoint, EngineCapabilities, EngineError
from serving.engines.engine_log import EngineLog
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.supervisor import STOPPED, Supervisor
from tests.engines.real_engine import SMALL, RunningEngine

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

SUPERVISE = """
import asyncio, os, sys, time
from pathlib import Path
import aiohttp
from serving.engines.engine_log import EngineLog
from serving.engines.llamacpp import LlamaCppEngine, LlamaCppSettings
from serving.engines.supervisor import Supervisor

async def main():
    supervisor = Supervisor(
        "full", LlamaCppEngine(LlamaCppSettings(slots=1, context_tokens=256)), model=Path(sys.argv[1]),
        log=EngineLog(Path(sys.argv[2])), environ=os.environ, clock=time.monotonic,
        on_ready=lambda endpoint, capabilities: print("ready", flush=True), on_down=lambda url, reason: None,
    )
    async with aiohttp.ClientSession() as session:
        await supervisor.run(session)

asyncio.run(main())
"""


class Watched:
    """A supervisor over the real engine, and what it told."""

    def __init__(self, model: Path, log: Path, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.ready: list[tuple[Endpoint, EngineCapabilities]] = []
        self.reasons: list[str] = []
        supervisor = Supervisor(
            "full",
            LlamaCppEngine(LlamaCppSettings.model_validate(SMALL)),
            model=model,
            log=EngineLog(log),
            environ=os.environ,
            on_ready=lambda endpoint, capabilities: self.ready.append((endpoint, capabilities)),
            on_down=lambda url, reason: self.reasons.append(reason),
            clock=time.monotonic,
        )
        self.task = asyncio.create_task(supervisor.run(session))

    async def until_ready(self, num_times: int) -> Endpoint:
        async with asyncio.timeout(120):
            while len(self.ready) < num_times:
                assert not self.task.done(), self.task
                await asyncio.sleep(0.02)
        return self.ready[-1][0]

    async def chat(self, endpoint: Endpoint, **body: Any) -> dict[str, Any]:
        async with self.session.post(
            f"{endpoint.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 8, **body},
            headers={"authorization": f"Bearer {endpoint.api_key}"},
        ) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as made:
        yield made


def process_of(endpoint: Endpoint) -> psutil.Process:
    """The engine that listens there."""
    port = endpoint.url.rpartition(":")[2]
    (found,) = (
        process
        for process in psutil.Process().children(recursive=True)
        if process.is_running() and f"--port {port}" in " ".join(process.cmdline())
    )
    return found


def wait_until_gone(process: psutil.Process, timeout_s: float = 10.0) -> None:
    give_up = time.monotonic() + timeout_s
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up, f"{process} still runs"
        time.sleep(0.02)


async def test_up_asked_and_stopped(full_model: Path, tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """It becomes ready, answers under its own key alone, says what it offers, and leaves no process."""
    watched = Watched(full_model, tmp_path / "full.log", session)
    try:
        endpoint = await watched.until_ready(1)
        capabilities = watched.ready[0][1]
        assert (capabilities.num_slots, capabilities.context_tokens) == (4, 1024)
        assert capabilities.tools
        assert capabilities.forced_call_prefix == "<tool_call>"
        answer = await watched.chat(endpoint, model=capabilities.model_id)
        assert answer["choices"][0]["message"]["content"]
        with pytest.raises(aiohttp.ClientResponseError, match="401"):
            await watched.chat(Endpoint(url=endpoint.url, api_key="guess"))
        process = process_of(endpoint)
        assert {connection.laddr.ip for connection in process.net_connections() if not connection.raddr} == {
            "127.0.0.1"
        }
        assert endpoint.api_key not in " ".join(process.cmdline())
    finally:
        await watched.stop()
    wait_until_gone(process)
    assert watched.reasons == [STOPPED]
    assert "listening on" in (tmp_path / "full.log").read_text()


async def test_a_killed_engine_comes_back(
    full_model: Path, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """SIGKILL in the middle of an answer: the reason is told and another process answers."""
    watched = Watched(full_model, tmp_path / "full.log", session)
    try:
        first = await watched.until_ready(1)
        asking = asyncio.create_task(watched.chat(first, max_tokens=1500, ignore_eos=True))
        await asyncio.sleep(0.3)
        os.kill(process_of(first).pid, signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await asking
        second = await watched.until_ready(2)
        assert "killed by SIGKILL" in watched.reasons[0]
        assert (await watched.chat(second))["choices"]
    finally:
        await watched.stop()


async def test_stopped_while_it_answers(
    full_model: Path, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """An answer under way does not hold up the end: SIGTERM is enough, in less than its grace."""
    watched = Watched(full_model, tmp_path / "full.log", session)
    endpoint = await watched.until_ready(1)
    process = process_of(endpoint)
    asking = asyncio.create_task(watched.chat(endpoint, max_tokens=1500, ignore_eos=True))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await watched.stop()
    assert time.monotonic() - began < 4
    wait_until_gone(process)
    with pytest.raises(aiohttp.ClientError):
        await asking


def cut_in_half(model: Path, directory: Path) -> Path:
    cut = directory / "cut.gguf"
    with model.open("rb") as source:
        cut.write_bytes(source.read(model.stat().st_size // 2))
    return cut


async def test_weights_that_are_cut_off(
    full_model: Path, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """The header is whole, the tensors are not: llama.cpp's own refusal becomes a reason with a remedy."""
    watched = Watched(cut_in_half(full_model, tmp_path), tmp_path / "full.log", session)
    with pytest.raises(
        EngineError, match=r"does not start.*the model file cannot be loaded.*registry verify"
    ):
        await watched.task


def engines_on(model: Path, argument: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(model) in (process.info["cmdline"] or ()) and argument in " ".join(process.info["cmdline"])
    ]


def test_kill_9_of_the_supervisor_leaves_no_engine(full_model: Path, tmp_path: Path) -> None:
    """The process above dies without a chance to clean up; the engine goes with it."""
    mine = tmp_path / "mine.gguf"
    mine.symlink_to(full_model)
    supervising = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(mine), str(tmp_path / "log")], stdout=subprocess.PIPE
    )
    assert supervising.stdout is not None
    try:
        assert supervising.stdout.readline() == b"ready\n"
        (engine,) = engines_on(mine, "llamacpp_server")
    finally:
        supervising.kill()
        supervising.communicate()
    wait_until_gone(engine)


def test_a_stream_closes_its_connection(engine: RunningEngine) -> None:
    """After a streamed answer the server hangs up, though it promised to keep the connection: do not use it again.

    The client sees a disconnect without a response, which is easily taken for a crash.
    """
    body = b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stream": true}'
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"authorization: {engine.headers['authorization']}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((engine.base_url.host, engine.base_url.port or 0), timeout=4) as connection:
        connection.sendall(head.encode() + body)
        answer = b"".join(
            iter(lambda: connection.recv(65536), b"")
        )  # would time out on a connection that is kept
    assert b"Keep-Alive: timeout=5" in answer
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


HOSTILE: dict[str, dict[str, Any]] = {
    "a tool call's arguments are no JSON": {
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "no"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "x"},
        ]
    },
    "a schema that refers to itself": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "a",
                "schema": {
                    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                    "$ref": "#/$defs/a",
                },
            },
        }
    },
    "a pattern of brackets": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "a",
                "schema": {"type": "string", "pattern": f"^{'(' * 9999}{')' * 9999}$"},
            },
        }
    },
    "a broken pattern": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "string", "pattern": "^(a+$"}},
        }
    },
    "endless strings": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "string", "minLength": 10**9}},
        }
    },
    "an image": {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}]
    },
    "tools that are none": {"tools": [1, {"type": "custom"}, {"type": "function", "function": {}}]},
    "a token that is none": {"logit_bias": {"99999999": 5, "-1": 5, "x": 1}},
    "a prompt beyond the context": {"messages": [{"role": "user", "content": "hi " * 5000}]},
    "control characters": {"messages": [{"role": "user", "content": "<|im_end|>\x00\ufffe<|im_start|>"}]},
    "a call begun by the client": {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": '<tool_call>[{"name": "g'},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "tool_choice": "required",
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_such_request_ends_the_engine(engine: RunningEngine, name: str) -> None:
    """Whatever the answer is, the next client is served."""
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4, **HOSTILE[name]}
    assert engine.post("/v1/chat/completions", json=body).status_code in {200, 400, 500}
    assert engine.process.poll() is None
    assert engine.chat(max_tokens=1)["choices"]


def test_a_schema_as_deep_as_the_gateway_lets_through(engine: RunningEngine) -> None:
    """The gateway's JSON parser ends at 1,024 levels; tens of thousands would end the engine."""
    schema = '{"anyOf":[' * 490 + "{}" + "]}" * 490
    body = (
        '{"messages":[{"role":"user","content":"x"}],"max_tokens":4,"response_format":{"type":"json_schema",'
        f'"json_schema":{{"name":"a","schema":{schema}}}}}}}'
    )
    assert engine.post("/v1/chat/completions", content=body.encode()).status_code in {200, 400}
    assert engine.chat(max_tokens=1)["choices"]
