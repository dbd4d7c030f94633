"""What becomes of each fault of an upstream: what the client sees, and what the books and the breaker hear."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any

import pytest

from serving.ledger.records import Outcome
from serving.upstream.breaker import BreakerState
from tests.fakes import DEFAULT_TOKENS, Fault, MockUpstream, Point, Script
from tests.live_gateway import HI, LiveGateway, connected, post

TEXT = "".join(DEFAULT_TOKENS)
SHORT = {"connect_s": 0.5, "first_token_s": 0.3, "idle_s": 0.3, "total_s": 1.0}
PATIENT = {**SHORT, "first_token_s": 9.0, "idle_s": 9.0}
"""For what has to run into the total: on a busy machine a gap between tokens is as long as a short deadline."""

# An upstream's fault before the first byte to the client: status, code, outcome.
BEFORE_COMMIT: list[Any] = [
    pytest.param(Script(fault=Fault.RESET), 502, "upstream_connection_lost", "failure", id="reset"),
    pytest.param(Script(fault=Fault.CLOSE), 502, "upstream_connection_lost", "failure", id="close"),
    pytest.param(
        Script(fault=Fault.RESET, fault_at=Point.FIRST_TOKEN),
        *(502, "upstream_connection_lost", "failure"),
        id="reset after headers",
    ),
    pytest.param(Script(raw=b"SSH-2.0-server\r\n"), 502, "upstream_protocol_error", "failure", id="no http"),
    pytest.param(Script(body=b'{"choices": ['), 502, "upstream_protocol_error", "failure", id="garbage"),
    pytest.param(Script(body=b""), 502, "upstream_protocol_error", "failure", id="empty"),
    pytest.param(Script(body=b"[]"), 502, "upstream_protocol_error", "failure", id="no object"),
    pytest.param(
        Script(body=b"<html>\n\n</html>\n\n", headers={"content-type": "text/html"}),
        *(502, "upstream_protocol_error", "failure"),
        id="html",
    ),
    pytest.param(
        Script(body=b'{"error": {"message": "CUDA ran out", "code": 500}}'),
        *(502, "upstream_error", "failure"),
        id="error in a 200",
    ),
    pytest.param(
        Script(body=b'{"error": {"message": "bad grammar", "type": "invalid_request_error", "code": 400}}'),
        *(400, None, "rejected"),
        id="client error in a 200",
    ),
    pytest.param(
        Script(status=302, headers={"location": "http://127.0.0.1:1/"}),
        *(502, "upstream_protocol_error", "failure"),
        id="redirect",
    ),
    pytest.param(Script(status=500), 502, "upstream_error", "failure", id="500"),
    pytest.param(Script(status=501), 502, "upstream_error", "failure", id="501"),
    pytest.param(Script(status=504), 504, "upstream_error", "failure", id="504"),
    pytest.param(Script(status=401), 502, "upstream_error", "failure", id="401"),
    pytest.param(Script(status=404), 502, "upstream_error", "failure", id="404"),
    pytest.param(Script(status=429), 429, "overloaded", "overloaded", id="429"),
    pytest.param(Script(status=503), 503, "overloaded", "overloaded", id="503"),
    pytest.param(Script(status=529), 529, "overloaded", "overloaded", id="529"),
    pytest.param(Script(status=400, error={"code": "c"}), 400, "c", "rejected", id="400"),
    pytest.param(Script(status=422), 400, None, "rejected", id="422"),
    pytest.param(Script(status=413), 413, None, "rejected", id="413"),
    pytest.param(Script(status=400, body=b"no " * 100_000), 400, None, "rejected", id="a long 400"),
    pytest.param(
        Script(status=400, fault=Fault.RESET, fault_at=Point.MID_STREAM),
        400,
        None,
        "rejected",
        id="a cut 400",
    ),
]


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize(("script", "status", "code", "outcome"), BEFORE_COMMIT)
async def test_fault_before_the_first_byte(
    script: Script, status: int, code: str | None, outcome: str, is_streaming: bool
) -> None:
    """The client gets one HTTP error in OpenAI's shape, whole or streaming, and the books say what it was."""
    async with MockUpstream(script) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.chat({"stream": is_streaming})
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"] == "req_0"
        assert answer.headers["x-tierwise-tier"] == "fast"
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == code
        if outcome != "rejected":
            assert error["type"] == {"overloaded": "overloaded_error", "failure": "server_error"}[outcome]
        assert str(upstream.port) not in answer.text
        assert "retry-after" not in answer.headers
        await gateway.idle()
        (attempt,) = gateway.books.attempts
        assert (attempt.outcome, attempt.is_committed) == (outcome, False)
        assert gateway.books.statuses == [status]
        if outcome == "failure":
            assert answer.headers["x-should-retry"] == "false"


async def test_nobody_listens() -> None:
    """A refused connection is a 502 that names no address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with LiveGateway({"fast": [url]}) as gateway:
            answer = await gateway.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unreachable")
    assert url.rpartition(":")[2] not in answer.text


@pytest.mark.parametrize(
    ("point", "is_streaming", "code"),
    [
        (Point.HEADERS, True, "upstream_first_token_timeout"),
        (Point.FIRST_TOKEN, True, "upstream_first_token_timeout"),
        (Point.HEADERS, False, "upstream_total_timeout"),
        (Point.MID_STREAM, False, "upstream_total_timeout"),
    ],
)
async def test_stall_before_the_first_byte(point: Point, is_streaming: bool, code: str) -> None:
    """An upstream that hangs is a 504 after the deadline of its phase; a whole answer knows only the total."""
    script = Script(fault=Fault.STALL, fault_at=point)
    async with (
        MockUpstream(script) as upstream,
        LiveGateway({"fast": [upstream]}, deadlines=SHORT) as gateway,
    ):
        began = time.monotonic()
        answer = await gateway.chat({"stream": is_streaming})
        limit_s = 0.3 if is_streaming else 1.0
        assert limit_s <= time.monotonic() - began < limit_s + 2
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, code)
        await upstream.until(lambda: upstream.aborts)
        assert len(upstream.requests) == 1
        await gateway.idle()


@pytest.mark.parametrize(
    ("script", "code", "outcome"),
    [
        (Script(fault=Fault.RESET, fault_at=Point.MID_STREAM), "upstream_connection_lost", "failure"),
        (Script(fault=Fault.CLOSE, fault_at=Point.MID_STREAM), "upstream_connection_lost", "failure"),
        (Script(fault=Fault.STALL, fault_at=Point.MID_STREAM), "upstream_idle_timeout", "failure"),
        (Script(tokens=("word ",) * 99, itl_s=0.05), "upstream_total_timeout", "failure"),
        (Script(error_frame={"message": "KV cache lost"}, itl_s=0.02), "upstream_error", "failure"),
        (
            Script(error_frame={"message": "KV cache lost", "code": 500}, itl_s=0.02),
            "upstream_error",
            "failure",
        ),
        (Script(is_chunked=False, has_done=False, finish_reason=""), "stream_interrupted", "failure"),
    ],
)
async def test_fault_in_mid_stream(script: Script, code: str, outcome: str) -> None:
    """A stream that has begun ends with what was said, an error event and an end: never in silence or with [DONE]."""
    deadlines = PATIENT if code == "upstream_total_timeout" else SHORT
    async with (
        MockUpstream(script) as upstream,
        LiveGateway({"fast": [upstream]}, deadlines=deadlines) as gateway,
    ):
        answer = await gateway.stream()
        assert answer.status == 200
        assert answer.text.startswith("Hello") or answer.text.startswith("word word ")
        assert answer.error is not None
        assert answer.error["code"] == code
        assert set(answer.error) == {"message", "type", "param", "code"}
        assert answer.wire.endswith(b"}}\n\n")
        assert not answer.has_done
        await gateway.idle()
        (attempt,) = gateway.books.attempts
        assert (attempt.outcome, attempt.is_committed) == (outcome, True)
        assert gateway.books.statuses[0] >= 500
        assert gateway.gauge("tierwise_stream_errors_total") == 1


async def test_total_timeouts_do_not_trip_a_breaker() -> None:
    """A long answer is nobody's fault: the replica stays in health however many run out of time."""
    script = Script(tokens=("word ",) * 99, itl_s=0.05)
    deadlines = {**PATIENT, "total_s": 0.2}
    async with (
        MockUpstream(script) as upstream,
        LiveGateway({"fast": [upstream]}, deadlines=deadlines) as gateway,
    ):
        await asyncio.gather(*(gateway.stream() for _ in range(8)))
        assert gateway.fleet["fast"].pool.replicas[0].state(time.monotonic()) is BreakerState.CLOSED


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"retry-after": "7"}, "7"),
        ({"retry-after-ms": "1500"}, "2"),
        ({"retry-after": "0"}, "1"),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_retry_after_is_what_the_upstream_said(
    status: int, headers: dict[str, str], told: str | None
) -> None:
    """The client hears the upstream's own time, in whole seconds, and none where none was told."""
    async with (
        MockUpstream(Script(status=status, headers=headers)) as upstream,
        LiveGateway({"fast": [upstream]}) as gateway,
    ):
        answer = await gateway.chat()
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == told


async def test_a_replica_that_asks_for_rest_gets_it() -> None:
    """`retry-after` of an overloaded replica keeps requests away from it while another can answer."""
    async with (
        MockUpstream(Script(status=429, headers={"retry-after": "60"})) as busy,
        MockUpstream() as free,
        LiveGateway({"fast": [busy, free]}) as gateway,
    ):
        for _ in range(8):
            assert (await gateway.chat()).status_code == 200
    assert len(busy.requests) == 1


async def test_a_4xx_never_makes_a_replica_rest() -> None:
    """A `retry-after` beside a client's error does not take the replica from everybody else."""
    async with (
        MockUpstream(Script(status=400, headers={"retry-after": "60"})) as upstream,
        LiveGateway({"fast": [upstream]}) as gateway,
    ):
        await gateway.chat()
        assert gateway.fleet["fast"].pool.is_available


# streams


@pytest.mark.parametrize(
    "script",
    [
        Script(newline="\r\n"),
        Script(comment="keep-alive"),
        Script(comment="keep-alive", newline="\r\n"),
        Script(is_gzipped=True),
        Script(is_chunked=False),
        Script(closes_connection=True),
        Script(has_done=False),
        Script(sends_headers_at_once=True, ttft_s=0.05),
        *(Script(write_bytes=size) for size in (1, 2, 3, 7, 64)),
        Script(write_bytes=1, newline="\r\n"),
        Script(extra={"timings": {"draft_n": 3}, "system_fingerprint": "b1"}),
        Script(itl_s=0.02),
    ],
)
@pytest.mark.parametrize("asks_for_usage", [True, False])
async def test_however_a_stream_comes_the_text_is_the_same(script: Script, asks_for_usage: bool) -> None:
    """Line ends, comments, compression and cuts at any byte change nothing of what the client reads."""
    options = {"stream_options": {"include_usage": True}} if asks_for_usage else {}
    patient = {"total_s": 100.0}  # a thousand writes take long where there is no CPU to spare
    async with (
        MockUpstream(script) as upstream,
        LiveGateway({"fast": [upstream]}, deadlines=patient) as gateway,
    ):
        answer = await gateway.stream(options)
        await gateway.idle()
    assert answer.text == TEXT
    assert answer.has_done
    assert answer.error is None
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in answer.headers
    assert len(answer.usages) == asks_for_usage
    if asks_for_usage:
        assert answer.objects[-1]["choices"] == []
        assert answer.usages == [{"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}]
    assert "timings" not in answer.wire.decode()
    assert upstream.requests[0].json["stream_options"] == {"include_usage": True}
    assert gateway.books.attempts[0].usage.completion_tokens == 5
    assert gateway.books.outcomes == [Outcome.SUCCESS]
    assert gateway.books.statuses == [200]


async def test_a_stream_arrives_while_it_is_made() -> None:
    """Tokens are passed on as they come, and their times are measured: first token, gaps, tokens per stream."""
    async with (
        MockUpstream(Script(ttft_s=0.1, itl_s=0.1)) as upstream,
        LiveGateway({"fast": [upstream]}) as gateway,
    ):
        async with connected(gateway.port) as (reader, writer):
            began = time.monotonic()
            writer.write(post(json.dumps({"model": "fast", "messages": HI, "stream": True}).encode()))
            await reader.readuntil(b"Hello")
            first_at = time.monotonic() - began
            await reader.readuntil(b"[DONE]")
            last_at = time.monotonic() - began
        await gateway.idle()
        assert first_at >= 0.1
        assert last_at - first_at >= 0.35, "the first token did not come before the last was made"
        (attempt,) = gateway.books.attempts
        assert 0.1 <= attempt.first_token_s <= first_at
        assert gateway.gauge("tierwise_ttft_seconds_count") == 1
        assert gateway.gauge("tierwise_ttft_seconds_sum") == attempt.first_token_s
        assert gateway.gauge("tierwise_itl_seconds_count") == 4
        assert gateway.gauge("tierwise_itl_seconds_sum") == pytest.approx(0.4, abs=0.3)


async def test_usage_null_is_left_alone() -> None:
    """`"usage": null` in a chunk is part of the protocol, not a report of usage."""
    async with (
        MockUpstream(Script(extra={"usage": None})) as upstream,
        LiveGateway({"fast": [upstream]}) as gateway,
    ):
        answer = await gateway.stream({"stream_options": {"include_usage": True}})
    assert answer.wire.count(b'"usage": null') == len(DEFAULT_TOKENS) + 1
    assert len(answer.usages) == 1


async def test_many_events_in_one_read_are_all_passed_on() -> None:
    """A thousand events that come at once are a thousand events."""
    script = Script(tokens=("w",) * 1000)
    async with MockUpstream(script) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.stream()
    assert answer.text == "w" * 1000
    assert len(answer.objects) == 1001


async def test_an_upstream_that_hangs_after_done_keeps_nobody_waiting() -> None:
    """[DONE] ends the client's answer, whether or not the upstream closes; the slot comes back soon after."""
    frames = (
        b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    writers: list[asyncio.StreamWriter] = []

    def answer_and_hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(head + b"%x\r\n%b\r\n" % (len(frames), frames))

    hanging = await asyncio.start_server(answer_and_hang, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{hanging.sockets[0].getsockname()[1]}"
    async with LiveGateway({"fast": [url]}) as gateway:
        began = time.monotonic()
        answer = await gateway.stream()
        assert time.monotonic() - began < 0.5
        assert answer.has_done
        assert answer.error is None
        await gateway.idle(2.0)
        assert gateway.books.outcomes == [Outcome.SUCCESS]
        assert gateway.books.statuses == [200]
    hanging.close()
    for writer in writers:
        writer.close()


async def test_upstream_connections_are_used_again() -> None:
    """Answers that came whole, streamed or not, leave a connection that the next request takes."""
    async with MockUpstream(Script(write_bytes=50)) as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        for is_streaming in (True, False, True, False):
            await gateway.chat({"stream": is_streaming})
            await gateway.idle()
        assert upstream.num_accepted == 1


# faithfulness


async def test_the_body_reaches_the_upstream_as_it_was_written() -> None:
    """Only the model's name differs: unknown members, their order, forms of numbers, and white space stay."""
    raw = (
        b'{ "messages": [{"role":"user","content":"h\\u00ef \xf0\x9f\x99\x82"}],\n"x_new": {"b": 1E2, "a": [1.0, 0.10,'
        b' -0]},"seed": 12345678901234567890123, "model" : "fast" ,"temperature":1.0}'
    )
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.http.post("/v1/chat/completions", content=raw)
        assert answer.status_code == 200
    assert upstream.requests[0].body == raw.replace(b'"model" : "fast"', b'"model":"mock-model"')
    assert upstream.requests[0].headers["content-length"] == str(len(upstream.requests[0].body))


async def test_what_the_engine_validates_is_not_validated_here() -> None:
    """A tool without parameters, a member with a strange value: the engine knows what it takes."""
    members = {
        "tools": [{"type": "function", "function": {"name": "now"}}],
        "temperature": 99,
        "stop": None,
        "logit_bias": {"1": "x"},
    }
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        assert (await gateway.chat(members)).status_code == 200
    assert members.items() <= upstream.requests[0].json.items()


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"[1]", 400, "invalid_json"),
        (b"null", 400, "invalid_json"),
        (b'"text"', 400, "invalid_json"),
        (b'{"model": "fast", "messages": [{"role": "user", "content": "\xff"}]}', 400, "invalid_json"),
        (b'{"model": "fast", "messages": NaN}', 400, "invalid_json"),
        (b'{"x": 1e999}', 400, "invalid_json"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "invalid_json"),
        (b'{"messages": ' + b"[" * 2000 + b"]" * 2000 + b"}", 400, "invalid_json"),
    ],
)
async def test_a_body_that_is_no_request(raw: bytes, status: int, code: str) -> None:
    """What is no JSON object is refused as the client's mistake, and reaches no upstream."""
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.http.post("/v1/chat/completions", content=raw)
        assert not upstream.requests
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert len(answer.content) < 1000


@pytest.mark.parametrize("number", ["123456789012345678901234567890", "1e-400", "0.1234567890123456789"])
async def test_numbers_that_a_float_cannot_hold_go_through(number: str) -> None:
    """A number that the gateway does not read keeps its digits."""
    raw = json.dumps({"model": "fast", "messages": HI, "x": "N"}).replace('"N"', number).encode()
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        answer = await gateway.http.post("/v1/chat/completions", content=raw)
        assert answer.status_code == 200, answer.text
    assert number.encode() in upstream.requests[0].body


async def test_a_name_that_stands_twice_is_replaced_twice() -> None:
    """A second `model` cannot smuggle another model's name past the router."""
    raw = b'{"model": "auto", "messages": [{"role": "user", "content": "hi"}], "model": "full"}'
    async with (
        MockUpstream() as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        await gateway.http.post("/v1/chat/completions", content=raw)
    pairs = json.loads(full.requests[0].body, object_pairs_hook=list)
    assert [value for name, value in pairs if name == "model"] == ["mock-model"] * 2


async def test_no_header_of_the_client_goes_upstream() -> None:
    """Neither credentials nor hop-by-hop headers nor anything else, but the request's id and its trace."""
    sent = {
        "authorization": "Bearer client",
        "api-key": "client",
        "cookie": "a=b",
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
        "te": "trailers",
        "keep-alive": "timeout=5",
        "proxy-authorization": "Basic x",
        "x-forwarded-for": "10.0.0.1",
        "accept-encoding": "gzip, br",
        "user-agent": "tester/1",
        "x-request-id": "id-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    async with MockUpstream() as upstream, LiveGateway({"fast": [upstream]}) as gateway:
        assert (await gateway.chat(headers=sent)).status_code == 200
    seen = upstream.requests[0].headers
    assert seen.pop("traceparent") == sent["traceparent"]
    assert seen.pop("x-request-id") == "id-1"
    assert seen.pop("authorization") == "Bearer upstream-key"
    assert seen.pop("user-agent") == "tierwise"
    assert seen.pop("accept-encoding") == "identity"
    assert seen.keys() <= {"host", "content-type", "content-length", "accept"}


async def test_vendor_fields_are_stripped_unless_exposed() -> None:
    """An engine's own members reach the client only where the operator wants it."""
    script = Script(extra={"timings": {"draft_n": 9, "draft_n_accepted": 4}})
    for is_exposed in (False, True):
        async with (
            MockUpstream(script) as upstream,
            LiveGateway({"fast": [upstream]}, expose_vendor_fields=is_exposed) as gateway,
        ):
            whole, stream = await gateway.chat(), await gateway.stream()
        assert ("timings" in whole.json()) is is_exposed
        assert all(("timings" in told) is is_exposed for told in stream.objects)
        usage = gateway.books.attempts[0].usage
        assert (usage.drafted_tokens, usage.accepted_tokens) == (9, 4)


async def test_an_upstream_header_never_reaches_the_client() -> None:
    """Cookies, server names and encodings of an upstream are between it and us."""
    headers = {"set-cookie": "a=b", "x-internal-host": "gpu-7", "openai-organization": "o"}
    async with (
        MockUpstream(Script(headers=headers)) as upstream,
        LiveGateway({"fast": [upstream]}) as gateway,
    ):
        for answer in (await gateway.chat(), await gateway.stream()):
            assert not headers.keys() & answer.headers.keys()
