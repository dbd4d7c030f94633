"""How a process ends: what runs is finished or told, nothing is cut off in silence, and the exit status is 0."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from serving.server import PortError, bind
from tests.fakes import MockUpstream, Script
from tests.live_gateway import HI, RunningProcess, config_file, serving_process

BODY = {"model": "fast", "messages": HI, "stream": True}


@contextlib.asynccontextmanager
async def stream_under_way(running: RunningProcess) -> AsyncIterator[AsyncIterator[str]]:
    """A stream of which the first event has come; its further lines."""
    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream("POST", f"{running.url}/v1/chat/completions", json=BODY) as response,
    ):
        lines = response.aiter_lines()
        assert "Hello" in await anext(lines)
        yield lines


async def status(url: str) -> int:
    async with httpx.AsyncClient() as client:
        return (await client.get(url)).status_code


def ledger_rows(directory: Path) -> list[tuple[int, str | None]]:
    with contextlib.closing(sqlite3.connect(directory / "ledger.sqlite")) as ledger:
        return ledger.execute("select status, error_code from decisions order by id").fetchall()


async def test_sigterm_lets_a_stream_finish(tmp_path: Path) -> None:
    """SIGTERM turns readiness off and goes on serving, new requests too; the stream ends whole, then the process."""
    script = Script(tokens=("Hello", *("word ",) * 15), itl_s=0.1)
    async with MockUpstream() as upstream:
        config = config_file(tmp_path / "t.toml", {"fast": upstream}, drain_s=20.0)
        async with serving_process("--config", config, cwd=tmp_path) as running:
            assert await status(f"{running.url}/readyz") == 200
            upstream.script = script
            async with stream_under_way(running) as lines:
                running.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.2)
                assert await status(f"{running.url}/readyz") == 503
                assert await status(f"{running.url}/healthz") == 200
                upstream.queue(Script())
                async with httpx.AsyncClient() as client:
                    late = await client.post(f"{running.url}/v1/chat/completions", json=BODY)
                assert late.status_code == 200
                rest = [line async for line in lines if line]
            assert rest[-1] == "data: [DONE]"
            assert not any('"error"' in line for line in rest)
            assert await running.ended() == 0
    assert ledger_rows(tmp_path) == [(200, None), (200, None)]


async def test_after_the_drain_streams_end_with_an_error_event(tmp_path: Path) -> None:
    """A stream that outlasts `drain_s` is told so and ends; the upstream is freed; the ledger has it."""
    script = Script(tokens=("Hello", *("word ",) * 400), itl_s=0.05)
    async with MockUpstream() as upstream:
        config = config_file(tmp_path / "t.toml", {"fast": upstream}, drain_s=0.5)
        async with serving_process("--config", config, cwd=tmp_path) as running:
            upstream.script = script
            async with stream_under_way(running) as lines:
                began = time.monotonic()
                running.process.send_signal(signal.SIGTERM)
                rest = [line async for line in lines if line]
                assert 0.5 <= time.monotonic() - began < 3.0
            error = json.loads(rest[-1].removeprefix("data: "))["error"]
            assert error["code"] == "shutting_down"
            assert await running.ended() == 0
        await upstream.until(lambda: upstream.aborts)
    assert ledger_rows(tmp_path) == [(503, "shutting_down")]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_does_not_wait(tmp_path: Path, second: signal.Signals) -> None:
    """Whoever asks twice gets an end at once, in order all the same: the stream is told and the ledger written."""
    script = Script(tokens=("Hello", *("word ",) * 400), itl_s=0.05)
    async with MockUpstream() as upstream:
        config = config_file(tmp_path / "t.toml", {"fast": upstream}, drain_s=60.0)
        async with serving_process("--config", config, cwd=tmp_path) as running:
            upstream.script = script
            async with stream_under_way(running) as lines:
                running.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.3)
                began = time.monotonic()
                running.process.send_signal(second)
                rest = [line async for line in lines if line]
            assert "shutting_down" in rest[-1]
            assert await running.ended() == 0
            assert time.monotonic() - began < 5.0
    assert ledger_rows(tmp_path) == [(503, "shutting_down")]


async def test_ctrl_c_ends_streams_with_an_event(tmp_path: Path) -> None:
    """SIGINT does not drain: running streams get their error event and the process ends with status 0."""
    script = Script(tokens=("Hello", *("word ",) * 400), itl_s=0.05)
    async with MockUpstream() as upstream:
        config = config_file(tmp_path / "t.toml", {"fast": upstream}, drain_s=60.0)
        async with serving_process("--config", config, cwd=tmp_path) as running:
            upstream.script = script
            async with stream_under_way(running) as lines:
                running.process.send_signal(signal.SIGINT)
                rest = [line async for line in lines if line]
            assert "shutting_down" in rest[-1]
            assert await running.ended() == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_the_start_ends_it(tmp_path: Path, signum: signal.Signals) -> None:
    """A gateway that waits for a tier answers health checks meanwhile, and can be ended with status 0."""
    config = config_file(tmp_path / "t.toml", {"fast": "http://127.0.0.1:1"})
    async with serving_process("--config", config, cwd=tmp_path, waits=False) as running:
        assert running.process.stdout is not None
        assert b"router: heuristic" in await asyncio.wait_for(running.process.stdout.readline(), 60)
        assert b"does not answer yet" in await asyncio.wait_for(running.process.stdout.readline(), 20)
        running.process.send_signal(signum)
        assert await running.ended() == 0


def test_a_port_that_is_taken_names_another() -> None:
    """The error says which address, why, and what to do."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortError, match=f"127.0.0.1:{port}.*in use.*--port"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_names_host(host: str) -> None:
    """An address that is not ours is not answered with advice about ports."""
    with pytest.raises(PortError, match=f"{host}.*--host"):
        bind(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_port_of_zero_is_a_free_one(host: str) -> None:
    """The socket is bound at once and not inherited by engines."""
    with bind(host, 0) as listener:
        assert listener.getsockname()[1] > 0
        assert not listener.get_inheritable()
