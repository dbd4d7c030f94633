"""A mock upstream: an OpenAI-like server in the test's own event loop that misbehaves on demand and takes notes.

It speaks HTTP/1.1 by hand, so that every byte is ours to delay, split, garble or withhold.

    async with MockUpstream(Script(ttft_s=0.1, itl_s=0.01)) as upstream:
        ...                                        # talk to upstream.url
        upstream.script = Script(status=503)       # from now on
        upstream.queue(Script(fault=Fault.RESET))  # for the next request only
        await upstream.until(lambda: upstream.aborts)
        upstream.requests[0].json["model"]

It knows `/v1/chat/completions`, `/v1/completions`, `/v1/responses` (a stream of text deltas and nothing finer),
`/v1/embeddings`, `/v1/models`, `/health`; anything else is 404.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Self, cast

import httptools

DEFAULT_TOKENS = ("Hello", ", ", "wörld", " 🙂", "!")


class Fault(Enum):
    """What goes wrong."""

    STALL = auto()
    """Nothing more is sent, and the connection stays open."""
    RESET = auto()
    """The connection ends with a TCP reset."""
    CLOSE = auto()
    """The connection ends cleanly, in the middle of what it owed."""


class Point(Enum):
    """When it goes wrong."""

    HEADERS = auto()
    """The request is read, nothing is answered."""
    FIRST_TOKEN = auto()
    """Status and headers are sent, no byte of the body."""
    MID_STREAM = auto()
    """`Script.num_tokens_before_fault` tokens are sent; half of the body where the answer is no stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How one request is answered. The default is a quick, correct answer."""

    ttft_s: float = 0.0
    itl_s: float = 0.0
    sends_headers_at_once: bool = False
    """Headers come before the time to first token, not with the first token."""
    tokens: tuple[str, ...] = DEFAULT_TOKENS
    finish_reason: str = "stop"
    prompt_tokens: int = 7
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Vendor members, added to every chunk or to the whole answer."""
    margins: tuple[float, ...] = ()
    """By how much each token beats the next likeliest, for chats that ask for log-probabilities; the last holds on."""

    status: int = 200
    error: Mapping[str, Any] | None = None
    """Members of the error object of an answer with status ≥ 400."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Added to, or put in the place of, the usual headers (`retry-after`, `content-type`)."""
    body: bytes | None = None
    """The whole body, stream or not, in the place of the composed one."""
    raw: bytes | None = None
    """Bytes in the place of any HTTP response; the connection closes after them."""

    fault: Fault | None = None
    fault_at: Point = Point.HEADERS
    num_tokens_before_fault: int = 2
    error_frame: Mapping[str, Any] | None = None
    """Sent as `{"error": …}` in a 200 stream after `num_tokens_before_fault` tokens; ends it."""
    has_done: bool = True
    """Streams end with `data: [DONE]`."""
    newline: str = "\n"
    comment: str | None = None
    """An SSE comment before every frame."""
    write_bytes: int | None = None
    """The body goes out in writes of so many bytes, wherever frames and characters begin."""
    write_gap_s: float = 0.001
    """Pause between those writes, so that they arrive as separate reads."""
    is_chunked: bool = True
    """Streams use chunked encoding; else they end with the connection."""
    is_gzipped: bool = False
    closes_connection: bool = False
    """The connection closes after the answer, and the answer says so."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """One request as the mock saw it. Times are `time.monotonic()`."""

    method: str
    path: str
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes
    connection: int
    """Which connection carried it, counted from 0."""
    received_at: float
    num_tokens_sent: int = 0
    num_bytes_sent: int = 0
    """Of the body."""
    finished_at: float | None = None
    """The answer was handed to the socket, as far as the script goes."""
    aborted_at: float | None = None
    """The client closed the connection before the answer was whole."""

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)

    @property
    def is_open(self) -> bool:
        """The answer is neither whole nor given up."""
        return self.finished_at is None and self.aborted_at is None


class MockUpstream:
    """The server. Binds a loopback port of its own while it is entered."""

    def __init__(self, script: Script | None = None, *, model: str = "mock-model") -> None:
        self.script = script or Script()
        """For every request that finds no queued script."""
        self.model = model
        self.requests: list[Seen] = []
        self.keep_alive_s: float | None = None
        """Idle connections are closed after so long."""
        self.is_reading = True
        """Connections are read from; else they are accepted, and no more than the first bytes are taken from them."""
        self.port = 0
        self._queued: deque[Script] = deque()
        self._connections: set[_Connection] = set()
        self._num_accepted = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; on the same port again after `stop`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self.port, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self, fault: Fault = Fault.CLOSE) -> None:
        """Stop listening and end every connection, as a process that dies: cleanly, or by `Fault.RESET`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._connections):
            connection.end(fault)
        while self._connections:
            await self._next_change()

    @property
    def url(self) -> str:
        """Without a trailing slash or `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def num_active(self) -> int:
        """Requests whose answer is neither whole nor given up."""
        return sum(seen.is_open for seen in self.requests)

    @property
    def num_connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def num_accepted(self) -> int:
        """Connections there ever were."""
        return self._num_accepted

    @property
    def aborts(self) -> list[Seen]:
        """Requests that the client gave up."""
        return [seen for seen in self.requests if seen.aborted_at is not None]

    def queue(self, *scripts: Script) -> None:
        """Answer the next requests so, one each, before `script` applies again."""
        self._queued.extend(scripts)

    def close_idle(self) -> None:
        """Close every connection on which no answer is owed."""
        for connection in tuple(self._connections):
            if connection.is_idle:
                connection.end(Fault.CLOSE)

    async def until(self, condition: Callable[[], object], timeout_s: float = 5.0) -> None:
        """Wait for `condition` to hold, looked at whenever something happens here.

        Raises:
            TimeoutError: it did not within `timeout_s`.
        """
        async with asyncio.timeout(timeout_s):
            while not condition():
                await self._next_change()

    async def _next_change(self) -> None:
        await self._changed.wait()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _take_script(self) -> Script:
        return self._queued.popleft() if self._queued else self.script


class _Connection(asyncio.Protocol):
    """One connection: parses requests, and answers one at a time."""

    def __init__(self, upstream: MockUpstream) -> None:
        self._upstream = upstream
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._answer: asyncio.Task[None] | None = None
        self._seen: Seen | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._path = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    @property
    def is_idle(self) -> bool:
        return self._seen is None

    def end(self, fault: Fault) -> None:
        if fault is Fault.RESET:
            # Lingering for zero seconds turns a close into a reset. On a copy of the descriptor, because
            # uvloop's stand-in for the socket has no setsockopt.
            descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
            with socket.socket(fileno=descriptor) as twin:
                twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._number = self._upstream._num_accepted
        self._upstream._num_accepted += 1
        self._upstream._connections.add(self)
        self._arm_idle_timer()

    def data_received(self, data: bytes) -> None:
        if not self._upstream.is_reading:
            self._transport.pause_reading()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._seen is not None and self._seen.is_open:
            self._seen.aborted_at = time.monotonic()
        if self._answer is not None:
            self._answer.cancel()
        self._upstream._connections.discard(self)
        self._upstream._note_change()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._path, self._headers, self._body = b"", {}, bytearray()

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._seen = Seen(
            method=self._parser.get_method().decode(),
            path=self._path.decode(),
            headers=self._headers,
            body=bytes(self._body),
            connection=self._number,
            received_at=time.monotonic(),
        )
        self._upstream.requests.append(self._seen)
        self._upstream._note_change()
        self._answer = asyncio.get_running_loop().create_task(self._serve(self._seen))
        self._answer.add_done_callback(self._close_if_broken)

    def _close_if_broken(self, answer: asyncio.Task[None]) -> None:
        # A mistake in the mock or its script ends the connection, so that no test waits for it.
        if not answer.cancelled() and answer.exception() is not None:
            self._transport.close()
            answer.result()

    # answering

    async def _serve(self, seen: Seen) -> None:
        script = self._upstream._take_script() if seen.path.startswith("/v1/") else Script()
        if seen.method == "GET":
            await self._send_whole(script, seen, _about(self._upstream.model, seen.path))
        elif script.raw is not None:
            self._transport.write(script.raw)
            self._transport.close()
        elif script.status < 400 and script.body is None and seen.json.get("stream"):
            await self._send_stream(script, seen)
        else:
            await self._send_whole(script, seen, _whole_answer(script, seen, self._upstream.model))
        seen.finished_at = time.monotonic()
        self._seen = None
        if script.closes_connection or not script.is_chunked:
            self._transport.close()
        self._arm_idle_timer()
        self._upstream._note_change()

    async def _send_whole(self, script: Script, seen: Seen, answer: tuple[int, bytes]) -> None:
        status, body = answer
        await self._fail_at(script, Point.HEADERS)
        await asyncio.sleep(script.ttft_s + script.itl_s * len(script.tokens))
        if script.is_gzipped:
            body = gzip.compress(body)
        await self._send_head(
            script, status, {"content-type": "application/json", "content-length": str(len(body))}
        )
        await self._fail_at(script, Point.FIRST_TOKEN)
        if script.fault is not None and script.fault_at is Point.MID_STREAM:
            await self._write(script, seen, body[: len(body) // 2], framed=False)
            await self._fail_at(script, Point.MID_STREAM)
        await self._write(script, seen, body, framed=False)
        seen.num_tokens_sent = len(script.tokens) if status < 400 else 0

    async def _send_stream(self, script: Script, seen: Seen) -> None:
        await self._fail_at(script, Point.HEADERS)
        if not script.sends_headers_at_once:
            await asyncio.sleep(script.ttft_s)
        framing = {"transfer-encoding": "chunked"} if script.is_chunked else {"connection": "close"}
        await self._send_head(script, script.status, {"content-type": "text/event-stream", **framing})
        await self._fail_at(script, Point.FIRST_TOKEN)
        if script.sends_headers_at_once:
            await asyncio.sleep(script.ttft_s)
        compressor = zlib.compressobj(wbits=31) if script.is_gzipped else None
        async for frame in self._paced_frames(script, seen):
            if compressor is not None:
                frame = compressor.compress(frame) + compressor.flush(zlib.Z_SYNC_FLUSH)
            await self._write(script, seen, frame, framed=script.is_chunked)
        if script.is_chunked:
            self._transport.write(b"0\r\n\r\n")

    async def _paced_frames(self, script: Script, seen: Seen) -> AsyncIterator[bytes]:
        frames = _Frames(script, seen, self._upstream.model)
        for number, token in enumerate((*script.tokens, None)):
            if number == script.num_tokens_before_fault:
                await self._fail_at(script, Point.MID_STREAM)
                if script.error_frame is not None:
                    yield frames.encode(json.dumps({"error": dict(script.error_frame)}))
                    return
            if token is None:
                break
            if number:
                await asyncio.sleep(script.itl_s)
            yield b"".join(frames.token(number, token))
            seen.num_tokens_sent += 1
        yield b"".join(frames.tail())

    async def _fail_at(self, script: Script, point: Point) -> None:
        if script.fault is None or script.fault_at is not point:
            return
        # What is owed so far leaves first: a reset would take unread bytes with it at the other end.
        await asyncio.sleep(0.01)
        if script.fault is not Fault.STALL:
            seen, self._seen = self._seen, None  # given up by us, not by the client
            assert seen is not None
            seen.finished_at = time.monotonic()
            self.end(script.fault)
        await asyncio.Event().wait()

    async def _send_head(self, script: Script, status: int, headers: dict[str, str]) -> None:
        headers = {"server": "mock", **headers}
        if script.is_gzipped:
            headers["content-encoding"] = "gzip"
        if script.closes_connection:
            headers["connection"] = "close"
        headers |= script.headers
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
        self._transport.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    async def _write(self, script: Script, seen: Seen, data: bytes, *, framed: bool) -> None:
        step = script.write_bytes or len(data) or 1
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            await self._can_write.wait()
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if framed else piece)
            seen.num_bytes_sent += len(piece)
            if script.write_bytes:
                await asyncio.sleep(script.write_gap_s)

    def _arm_idle_timer(self) -> None:
        if self._upstream.keep_alive_s is not None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._upstream.keep_alive_s, self._transport.close)


class _Frames:
    """The SSE frames of one stream, for every choice that was asked for."""

    def __init__(self, script: Script, seen: Seen, model: str) -> None:
        self._script = script
        self._request = seen.json
        self._is_chat = "chat" in seen.path
        self._is_responses = seen.path.startswith("/v1/responses")
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        self._base: dict[str, Any] = {
            "id": "chatcmpl-mock",
            "object": kind,
            "created": 1_700_000_000,
            "model": model,
            **script.extra,
        }
        self._wants_usage = bool((self._request.get("stream_options") or {}).get("include_usage"))

    def encode(self, data: str) -> bytes:
        newline = self._script.newline
        comment = "" if self._script.comment is None else f": {self._script.comment}{newline}{newline}"
        return f"{comment}data: {data}{newline}{newline}".encode()

    def token(self, number: int, token: str) -> Iterator[bytes]:
        if self._is_responses:
            event = {"type": "response.output_text.delta", "delta": token, "sequence_number": number}
            yield self.encode(json.dumps(event, ensure_ascii=False))
            return
        for index in range(self._request.get("n") or 1):
            delta = {"content": token} if number else {"role": "assistant", "content": token}
            said = {"delta": delta} if self._is_chat else {"text": token}
            said |= _logprobs(self._script, self._request, [number])
            yield self._chunk([{"index": index, **said, "finish_reason": None}])

    def tail(self) -> Iterator[bytes]:
        if self._is_responses:
            usage = _usage(self._script, responses=True)
            response = {"id": "resp_mock", "status": "completed", "usage": usage}
            yield self.encode(json.dumps({"type": "response.completed", "response": response}))
            return
        for index in range(self._request.get("n") or 1):
            said: dict[str, Any] = {"delta": {}} if self._is_chat else {"text": ""}
            yield self._chunk([{"index": index, **said, "finish_reason": self._script.finish_reason}])
        if self._wants_usage:
            yield self._chunk([], usage=_usage(self._script))
        if self._script.has_done:
            yield self.encode("[DONE]")

    def _chunk(self, choices: list[dict[str, Any]], **members: Any) -> bytes:
        # Non-ASCII text stays as it is, so that characters of several bytes can be split.
        return self.encode(json.dumps({**self._base, "choices": choices, **members}, ensure_ascii=False))


def _logprobs(script: Script, request: Mapping[str, Any], numbers: Iterable[int]) -> dict[str, Any]:
    """The member of a choice that tells the log-probabilities of these tokens, where it is asked for and scripted."""
    if not (script.margins and request.get("logprobs")):
        return {}
    content = []
    for number in numbers:
        second = -0.1 - script.margins[min(number, len(script.margins) - 1)]
        top = [{"token": script.tokens[number], "logprob": -0.1}, {"token": "?", "logprob": second}]
        content.append({**top[0], "bytes": [], "top_logprobs": top[: request.get("top_logprobs", 0)]})
    return {"logprobs": {"content": content}}


def _usage(script: Script, *, responses: bool = False) -> dict[str, int]:
    given, made = ("input_tokens", "output_tokens") if responses else ("prompt_tokens", "completion_tokens")
    num = len(script.tokens)
    return {given: script.prompt_tokens, made: num, "total_tokens": script.prompt_tokens + num}


def _whole_answer(script: Script, seen: Seen, model: str) -> tuple[int, bytes]:
    """Status and body of an answer that is no stream."""
    if script.body is not None:
        return script.status, script.body
    if script.status >= 400:
        error = {"message": "mock error", "type": "mock_error", "param": None, "code": None}
        return script.status, json.dumps({"error": {**error, **(script.error or {})}}).encode()
    members = _answer_members(script, seen)
    if members is None:
        return 404, json.dumps({"error": {"message": f"no {seen.path}", "type": "not_found_error"}}).encode()
    return script.status, json.dumps({"model": model, **members, **script.extra}, ensure_ascii=False).encode()


def _answer_members(script: Script, seen: Seen) -> dict[str, Any] | None:
    text = "".join(script.tokens)
    choices = range(seen.json.get("n") or 1)
    match seen.path:
        case "/v1/chat/completions":
            said: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
            said |= _logprobs(script, seen.json, range(len(script.tokens)))
        case "/v1/completions":
            said = {"text": text}
        case "/v1/embeddings":
            rows = [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}]
            return {"object": "list", "data": rows, "usage": {"prompt_tokens": 7, "total_tokens": 7}}
        case "/v1/responses":
            content = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"type": "message", "id": "msg_mock", "role": "assistant", "content": content}
            head = {"id": "resp_mock", "object": "response", "status": "completed"}
            return {**head, "output": [message], "usage": _usage(script, responses=True)}
        case _:
            return None
    return {
        "id": "chatcmpl-mock",
        "object": "chat.completion" if "message" in said else "text_completion",
        "created": 1_700_000_000,
        "choices": [{"index": index, **said, "finish_reason": script.finish_reason} for index in choices],
        "usage": _usage(script),
    }


def _about(model: str, path: str) -> tuple[int, bytes]:
    """Status and body of a GET."""
    match path:
        case "/v1/models":
            return 200, json.dumps({"object": "list", "data": [{"id": model, "object": "model"}]}).encode()
        case "/health":
            return 200, b'{"status":"ok"}'
        case _:
            return 404, b'{"error":{"message":"no such path","type":"not_found_error"}}'
