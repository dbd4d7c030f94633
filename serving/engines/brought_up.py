"""One engine for a while: up while it is used, ended with it. For measurements, and trials of a model.

What tiers are served by runs under `supervisor` for as long as the gateway does; here the same supervisor is given up
when the block is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from serving.engines.base import Endpoint, Engine, EngineCapabilities
from serving.engines.engine_log import EngineLog
from serving.engines.supervisor import Supervisor

REQUEST_TIMEOUT_S: Final = 600.0


@asynccontextmanager
async def brought_up(
    engine: Engine, model: Path, log: Path, environ: Mapping[str, str], *, name: str
) -> AsyncIterator[tuple[Endpoint, EngineCapabilities]]:
    """The engine, once it is ready.

    Args:
        engine: how it is launched and probed; not one of servers that run already.
        model: what it loads.
        log: where its output goes.
        environ: the caller's environment, of which an engine sees little (`supervisor.KEPT_VARIABLES`).
        name: for messages.

    Raises:
        EngineError: it does not start.
    """
    ready: asyncio.Future[tuple[Endpoint, EngineCapabilities]] = asyncio.get_running_loop().create_future()

    def on_ready(endpoint: Endpoint, capabilities: EngineCapabilities) -> None:
        if not ready.done():
            ready.set_result((endpoint, capabilities))

    supervisor = Supervisor(
        name,
        engine,
        model=model,
        log=EngineLog(log),
        environ=environ,
        on_ready=on_ready,
        on_down=lambda url, reason: None,
        clock=time.monotonic,
    )
    async with aiohttp.ClientSession() as session:
        running = asyncio.create_task(supervisor.run(session))
        try:
            waiting: set[asyncio.Future[Any]] = {running, ready}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running  # raises why
            yield ready.result()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def new_session() -> aiohttp.ClientSession:
    """For long requests to engines; each on a connection of its own, since llama.cpp keeps none."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        connector=aiohttp.TCPConnector(force_close=True, limit=0),
    )
