"""A stand-in for the gateway, so that load tests are tested without the rooms that they must not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from loadtests.gauges import GATEWAY_GAUGES

MakeGateway = Callable[..., AbstractAsyncContextManager[str]]


class StandInGateway:
    """Passes chat requests through and counts those in flight: rightly, or only down on success."""

    def __init__(self, upstream_url: str, *, leaks: bool, delay_s: float) -> None:
        self._upstream_url = upstream_url
        self._leaks = leaks
        self._delay_s = delay_s
        self._num_in_flight = 0
        self._session: aiohttp.ClientSession

    @asynccontextmanager
    async def run(self) -> AsyncIterator[str]:
        """Serve, and yield the URL."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as self._session:
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()
                await asyncio.sleep(0)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self._num_in_flight += 1
        is_answered = False
        try:
            response = await self._relay(request)
            is_answered = True
        finally:
            if is_answered or not self._leaks:
                self._num_in_flight -= 1
        return response

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        await asyncio.sleep(self._delay_s)
        headers = {"content-type": "application/json"}
        url = f"{self._upstream_url}/v1/chat/completions"
        async with self._session.post(url, data=body, headers=headers) as upstream:
            answer = web.StreamResponse(
                status=upstream.status,
                headers={"content-type": upstream.headers["content-type"], "x-tierwise-tier": "fast"},
            )
            await answer.prepare(request)
            async for piece in upstream.content.iter_any():
                await answer.write(piece)
            await answer.write_eof()
            return answer

    async def _metrics(self, request: web.Request) -> web.Response:
        values = dict.fromkeys(GATEWAY_GAUGES, 0) | {GATEWAY_GAUGES[0]: self._num_in_flight}
        lines = [
            f'# TYPE {name} gauge\n{name}{{endpoint="chat"}} {value}\n' for name, value in values.items()
        ]
        return web.Response(text="".join(lines))


@pytest.fixture
def stand_in_gateway() -> MakeGateway:
    """Make a stand-in in front of an upstream: an async context manager of its URL."""

    def make(
        upstream_url: str, *, leaks: bool = False, delay_s: float = 0.0
    ) -> AbstractAsyncContextManager[str]:
        return StandInGateway(upstream_url, leaks=leaks, delay_s=delay_s).run()

    return make


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of random weights, with a tokenizer of its own."""
    from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint
    from tests.train.model.tiny import tiny_shape
    from train.checkpoints.to_gguf import convert_to_gguf

    place = tmp_path_factory.mktemp("tiny")
    shape = tiny_shape(
        vocab_size=80,
        num_layers=2,
        hidden_size=64,
        head_size=32,
        num_heads=2,
        num_kv_heads=1,
        max_positions=4096,
    )
    write_checkpoint(place / "tiny", shape)
    convert_to_gguf(place / "tiny", place / "tiny.gguf")
    return place / "tiny.gguf"
