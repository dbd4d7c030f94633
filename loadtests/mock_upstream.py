"""An OpenAI-shaped server that answers by the clock: `python -m loadtests.mock_upstream --ttft-ms 50`.

It stands where an engine would, so that what a gateway adds can be measured. It thinks for `ttft`, then sends
one token each `itl`; a non-stream arrives whole at the moment its last token would. Texts are rendered
beforehand and events leave by exact alarms, so that it takes little of the machine it shares. It is no model:
the answer is always the same word.

When it listens it prints one line of JSON, `{"url": "http://127.0.0.1:PORT"}`. SIGTERM or SIGINT ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import httptools
import orjson
import uvloop

from loadtests import mock_answers
from loadtests.alarms import Alarm, Alarms
from loadtests.stream_client import CHAT_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the parts of an answer are due, in seconds after the whole request has arrived."""

    ttft_s: float
    itl_s: float
    num_tokens: int
    """Where the request states no maximum."""

    def token_s(self, index: int) -> float:
        """The moment of token `index`, counted from 0."""
        return self.ttft_s + index * self.itl_s


@dataclass(slots=True)
class Tally:
    """What the server has seen."""

    num_in_flight: int = 0
    num_completed: int = 0
    num_aborted: int = 0

    def exposition(self) -> bytes:
        """The metrics page, as Prometheus reads it."""
        return (
            "# TYPE mock_requests_in_flight gauge\n"
            f"mock_requests_in_flight {self.num_in_flight}\n"
            "# TYPE mock_requests_completed_total counter\n"
            f"mock_requests_completed_total {self.num_completed}\n"
            "# TYPE mock_requests_aborted_total counter\n"
            f"mock_requests_aborted_total {self.num_aborted}\n"
        ).encode()


class _Answer:
    """One answer under way: writes each part when it is due and says so when the last has gone out."""

    def __init__(
        self, connection: _Connection, *, pace: Pace, alarms: Alarms, request: dict[str, Any]
    ) -> None:
        self._connection = connection
        self._pace = pace
        self._alarms = alarms
        self._started_s = time.monotonic()
        self._num_tokens = max(
            1, request.get("max_completion_tokens") or request.get("max_tokens") or pace.num_tokens
        )
        self._num_sent = 0
        self._num_prompt_tokens = sum(len(str(m.get("content"))) for m in request.get("messages", ())) // 4
        self._includes_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        if request.get("stream"):
            connection.write(mock_answers.STREAM_HEAD)
            self._alarm = self._ring_at(0, self._send_token)
        else:
            self._alarm = self._ring_at(self._num_tokens - 1, self._send_whole)

    def cancel(self) -> None:
        """Send nothing more."""
        self._alarm.cancel()

    def _ring_at(self, token: int, callback: Any) -> Alarm:
        return self._alarms.call_at(self._started_s + self._pace.token_s(token), callback)

    def _send_token(self) -> None:
        text = mock_answers.token_chunk()
        if self._num_sent == 0:
            text = mock_answers.opening_chunk() + text
        self._num_sent += 1
        if self._num_sent < self._num_tokens:
            self._connection.write(text)
            self._alarm = self._ring_at(self._num_sent, self._send_token)
            return
        closing = mock_answers.closing_chunks(
            num_tokens=self._num_tokens,
            num_prompt_tokens=self._num_prompt_tokens,
            includes_usage=self._includes_usage,
        )
        self._connection.write(text + closing)
        self._connection.on_answered()

    def _send_whole(self) -> None:
        self._connection.write(
            mock_answers.completion(num_tokens=self._num_tokens, num_prompt_tokens=self._num_prompt_tokens)
        )
        self._connection.on_answered()


class _Connection(asyncio.Protocol):
    """One client's connection; answers one request after the other."""

    _transport: asyncio.Transport

    def __init__(self, *, pace: Pace, alarms: Alarms, tally: Tally) -> None:
        self._pace = pace
        self._alarms = alarms
        self._tally = tally
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._body = b""
        self._answer: _Answer | None = None

    def write(self, data: bytes) -> None:
        """Send a part of the answer."""
        self._transport.write(data)

    def on_answered(self) -> None:
        """The answer is complete."""
        self._answer = None
        self._tally.num_in_flight -= 1
        self._tally.num_completed += 1

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour, not by class

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None
            self._tally.num_in_flight -= 1
            self._tally.num_aborted += 1

    # httptools' callbacks

    def on_url(self, url: bytes) -> None:
        self._path = url.decode("latin-1").partition("?")[0]
        self._body = b""

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        if self._answer is not None:
            self._transport.close()  # it did not wait for its first answer
        elif self._path == CHAT_PATH:
            self._begin_answer()
        else:
            self._transport.write(self._page())

    def _begin_answer(self) -> None:
        try:
            request = orjson.loads(self._body)
        except orjson.JSONDecodeError:
            self._transport.write(mock_answers.error("400 Bad Request", "the body is no JSON"))
            return
        self._tally.num_in_flight += 1
        self._answer = _Answer(self, pace=self._pace, alarms=self._alarms, request=request)

    def _page(self) -> bytes:
        if self._path == "/health":
            return mock_answers.response("200 OK", b'{"status":"ok"}')
        if self._path == "/v1/models":
            return mock_answers.models()
        if self._path == "/metrics":
            return mock_answers.response("200 OK", self._tally.exposition(), "text/plain; version=0.0.4")
        return mock_answers.error("404 Not Found", f"the mock has no {self._path}")


async def serve(*, port: int, pace: Pace) -> None:
    """Answer on 127.0.0.1 until SIGTERM or SIGINT; `port` 0 takes a free one."""
    loop = asyncio.get_running_loop()
    alarms = Alarms(loop)
    tally = Tally()
    server = await loop.create_server(
        lambda: _Connection(pace=pace, alarms=alarms, tally=tally), "127.0.0.1", port
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    port = server.sockets[0].getsockname()[1]
    print(orjson.dumps({"url": f"http://127.0.0.1:{port}"}).decode(), flush=True)
    gc.disable()  # nothing here makes cycles, and a collection would make every stream late at once
    await stopped.wait()
    server.close()
    alarms.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server; the exit status is 0."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.mock_upstream", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--ttft-ms", type=float, default=50.0, help="time to first token (default 50)")
    parser.add_argument("--itl-ms", type=float, default=10.0, help="time between tokens (default 10)")
    parser.add_argument(
        "--tokens",
        type=int,
        default=20,
        help="length of an answer whose request states no max_tokens (default 20)",
    )
    options = parser.parse_args(argv)
    pace = Pace(ttft_s=options.ttft_ms / 1e3, itl_s=options.itl_ms / 1e3, num_tokens=options.tokens)
    uvloop.run(serve(port=options.port, pace=pace))
    return 0


if __name__ == "__main__":
    sys.exit(main())
