"""Runs the gateway's application on uvicorn, and ends it in order: not ready, drain, end what is left, stop.

uvicorn's own shutdown closes the listening socket first, and a load balancer that has not noticed yet sends its
requests into the void. Here SIGTERM first turns `/readyz` off and goes on serving until what runs has ended or
`drain_s` is over.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn

from serving.app import Gateway
from serving.gateway.exchange import App

POLL_S: Final = 0.05
FAREWELL_S: Final = 2.0
"""How long streams that were ended get to send their last event."""


class PortError(Exception):
    """The address cannot be listened on; the message names the remedy."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, taken before anything slow begins so that a port in use is told at once.

    Raises:
        PortError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortError(f"cannot listen on {host}:{port}: {error.strerror}; {_remedy(error, port)}") from None
    listener.set_inheritable(False)
    return listener


def _remedy(error: OSError, port: int) -> str:
    example = f"--port {port + 1 if 1024 <= port < 65535 else 8000}"
    if error.errno == errno.EADDRINUSE:
        return f"stop what listens there, or choose another with --port (for example {example})"
    if error.errno == errno.EACCES:
        return f"choose a port above 1023 (for example {example})"
    return "name an address of this machine with --host"


def http_config(app: App) -> uvicorn.Config:
    """How uvicorn serves us: HTTP alone, on the loop that runs, and without a log of its own."""
    return uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        proxy_headers=False,  # nothing here asks who the client is or how it came
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )


class Server(uvicorn.Server):
    """uvicorn with our order of ending. A second signal ends at once."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(http_config(gateway.app))
        self._gateway = gateway
        self._num_signals = 0
        self._draining: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM for the time of serving."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for signum in signals:
            loop.add_signal_handler(signum, self.handle_exit, signum, None)
        try:
            yield
        finally:
            for signum in signals:
                loop.remove_signal_handler(signum)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: SIGTERM drains first, SIGINT (a person at a terminal) does not wait."""
        self._num_signals += 1
        if self._num_signals > 1:
            self._gateway.service.end_all()
            self.should_exit = self.force_exit = True
            return
        drain_s = 0.0 if sig == signal.SIGINT else self._gateway.settings.gateway.drain_s
        self._draining = asyncio.get_running_loop().create_task(self._drain(drain_s))

    async def _drain(self, drain_s: float) -> None:
        self._gateway.is_draining = True
        await self._wait_until_idle(drain_s)
        self._gateway.service.end_all()
        await self._wait_until_idle(FAREWELL_S)
        self.should_exit = True

    async def _wait_until_idle(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + timeout_s
        while self._gateway.service.num_running and loop.time() < give_up:  # noqa: ASYNC110 - once in a process's life
            await asyncio.sleep(POLL_S)


def _spare_the_collector() -> None:
    """Take what the start has made, most of it modules, out of the garbage collector's sight: it lives as long as we.

    A full collection stops every stream while it looks at all there is; of the start alone, that is 100 ms and more.
    """
    gc.collect()
    gc.freeze()


async def serve(gateway: Gateway, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until a signal ends it. Engines start while the socket already answers `/healthz` and `/readyz`.

    Raises:
        EngineError, RegistryError: as `Gateway.start`.
    """
    server = Server(gateway)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    starting = asyncio.create_task(gateway.start())
    try:
        await asyncio.wait({starting, serving}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await starting
            _spare_the_collector()
            on_ready()
        await serving
    finally:
        server.should_exit = True
        starting.cancel()
        await asyncio.wait({starting})  # an engine that is being started now would outlive its gateway
        await gateway.stop()
        await serving
