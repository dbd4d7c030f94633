"""A small HTTP server of JSON for tests of whoever asks one: a handler says what, and it listens on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import dumps, loads
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and says JSON, and logs nothing."""

    def body(self) -> Any:
        """What was sent."""
        return loads(self.rfile.read(int(self.headers["content-length"])))

    def say(self, value: object) -> None:
        """Answer 200."""
        text = dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def listening(handler: type[JsonHandler]) -> Iterator[str]:
    """The server's address, while it listens on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
