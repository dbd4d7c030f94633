"""The mock upstream does what its scripts say, byte by byte: what other tests conclude rests on it."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.fakes import DEFAULT_TOKENS, Fault, MockUpstream, Point, Script


async def exchange(
    upstream: MockUpstream, body: dict[str, object], *, path: str = "/v1/chat/completions"
) -> bytes:
    """Send one request on a socket of its own and read until the server ends or resets it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    data = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    received = b""
    try:
        while chunk := await asyncio.wait_for(reader.read(65536), 5):
            received += chunk
    except ConnectionResetError:
        received += b"<reset>"
    finally:
        writer.close()
    return received


def texts(wire: bytes) -> list[str]:
    """Contents of the deltas in a close-delimited stream."""
    frames = [line[6:] for line in wire.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: {")]
    chunks = [json.loads(frame) for frame in frames]
    return [choice["delta"]["content"] for c in chunks for choice in c.get("choices", ()) if choice["delta"]]


async def test_stream_says_every_token_usage_and_done() -> None:
    """A stream carries each token, the usage chunk where asked for, and ends with [DONE]."""
    async with MockUpstream(Script(is_chunked=False)) as upstream:
        wire = await exchange(upstream, {"stream": True, "stream_options": {"include_usage": True}})
    assert texts(wire) == list(DEFAULT_TOKENS)
    assert b'"usage": {"prompt_tokens": 7, "completion_tokens": 5' in wire
    assert wire.endswith(b"data: [DONE]\n\n")


async def test_ttft_and_itl_are_kept() -> None:
    """The first byte comes after ttft_s, the last after (n − 1) further itl_s."""
    async with MockUpstream(Script(ttft_s=0.1, itl_s=0.05, is_chunked=False)) as upstream:
        started = time.monotonic()
        await exchange(upstream, {"stream": True})
        assert 0.3 <= time.monotonic() - started < 3.0


@pytest.mark.parametrize("point", list(Point))
@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CLOSE])
async def test_faults_strike_where_they_are_set(fault: Fault, point: Point) -> None:
    """A reset or a close leaves exactly what was sent before its point."""
    async with MockUpstream(Script(fault=fault, fault_at=point, is_chunked=False)) as upstream:
        wire = await exchange(upstream, {"stream": True})
    assert wire.endswith(b"<reset>") is (fault is Fault.RESET)
    assert (b"HTTP/1.1 200" in wire) is (point is not Point.HEADERS)
    assert texts(wire) == (list(DEFAULT_TOKENS[:2]) if point is Point.MID_STREAM else [])
    assert not upstream.aborts


async def test_client_that_leaves_is_recorded() -> None:
    """An answer that stalls until the client closes is an abort, with its time."""
    async with MockUpstream(Script(fault=Fault.STALL)) as upstream:
        call = asyncio.create_task(exchange(upstream, {"stream": True}))
        await upstream.until(lambda: upstream.num_active)
        left_at = time.monotonic()
        call.cancel()
        await upstream.until(lambda: upstream.aborts)
        aborted_at = upstream.aborts[0].aborted_at
        assert aborted_at is not None
        assert left_at <= aborted_at < left_at + 3
        assert upstream.num_active == 0


async def test_wire_forms() -> None:
    """CRLF, comments, an error frame, a missing [DONE] and split writes appear on the wire as asked for."""
    odd = Script(
        newline="\r\n", comment="ping", write_bytes=3, has_done=False, tokens=("é", "b"), is_chunked=False
    )
    async with MockUpstream(odd) as upstream:
        wire = await exchange(upstream, {"stream": True})
        assert texts(wire) == ["é", "b"]
        assert b": ping\r\n\r\ndata: " in wire
        assert b"[DONE]" not in wire
        upstream.queue(Script(error_frame={"message": "out of memory"}, is_chunked=False))
        wire = await exchange(upstream, {"stream": True})
        assert texts(wire) == list(DEFAULT_TOKENS[:2])
        assert wire.endswith(b'data: {"error": {"message": "out of memory"}}\n\n')


async def test_statuses_and_bodies() -> None:
    """Error answers carry the status, the error object and the headers of the script; queued scripts go first."""
    async with MockUpstream(Script(closes_connection=True)) as upstream:
        upstream.queue(Script(status=429, headers={"retry-after": "7"}, closes_connection=True))
        upstream.queue(Script(body=b"garbage", closes_connection=True), Script(raw=b"not http"))
        refused = await exchange(upstream, {"stream": True})
        assert refused.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 7\r\n" in refused
        assert (await exchange(upstream, {})).endswith(b"\r\n\r\ngarbage")
        assert await exchange(upstream, {}) == b"not http"
        assert '"content": "Hello, wörld 🙂!"'.encode() in await exchange(upstream, {})
        assert [seen.path for seen in upstream.requests] == ["/v1/chat/completions"] * 4
