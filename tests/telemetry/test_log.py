"""Tests of serving.telemetry.log."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
import timeit
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import uvicorn

from serving.telemetry.lines import as_json
from serving.telemetry.log import LogWriter, start_logging
from tests import ledger_records

DECISION = replace(ledger_records.DECISION, key=None, is_streaming=False)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:  # the test closed it
            continue


@pytest.fixture
def quiet_root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    level = root.level
    yield root
    root.setLevel(level)


def read_to_end(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read().decode()


def test_requests_and_messages_come_out_in_order(pipe: tuple[int, int], quiet_root: logging.Logger) -> None:
    """What was logged before `close` is written, in order, one line each."""
    reader, writer = pipe
    with start_logging("json", "info", descriptor=writer) as log:
        logging.getLogger("serving.x").info("first %d", 1)
        log.request(DECISION, [])
        logging.getLogger("serving.x").debug("below the level")
        logging.getLogger("serving.x").error("last")
    assert log not in quiet_root.handlers
    os.close(writer)
    lines = [orjson.loads(line) for line in read_to_end(reader).splitlines()]
    assert [line.get("message", line.get("request_id")) for line in lines] == ["first 1", "req-1", "last"]


def test_the_level_holds_for_requests_too(pipe: tuple[int, int]) -> None:
    """At WARNING a request that went well leaves no line."""
    reader, writer = pipe
    with LogWriter(as_json, level=logging.WARNING, descriptor=writer) as log:
        log.request(DECISION, [])
    os.close(writer)
    assert read_to_end(reader) == ""


def test_a_pipe_that_nobody_reads_holds_nobody_up(pipe: tuple[int, int]) -> None:
    """Logging goes on at full speed; lines beyond the bound are dropped, and the count of them is said."""
    reader, writer = pipe
    log = LogWriter(as_json, descriptor=writer, max_waiting=500)
    started = time.monotonic()
    for _ in range(5_000):
        log.request(DECISION, [])
    assert time.monotonic() - started < 2.0

    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(read_to_end, reader)
        log.close()
        os.close(writer)
        text = read.result()
    num_dropped = sum(int(count) for count in re.findall(r"(\d+) log lines were dropped", text))
    num_written = sum(orjson.loads(line)["event"] == "request" for line in text.splitlines())
    assert num_dropped > 1_000
    assert num_written + num_dropped == 5_000


def test_a_reader_that_went_away_stops_nothing(pipe: tuple[int, int]) -> None:
    """A broken pipe ends neither the caller nor the thread."""
    reader, writer = pipe
    os.close(reader)
    with LogWriter(as_json, descriptor=writer) as log:
        for _ in range(3):
            log.request(DECISION, [])
            time.sleep(0.02)
        assert log._thread.is_alive()


def test_a_descriptor_that_does_not_block_gets_every_byte(pipe: tuple[int, int]) -> None:
    """Another program may have set O_NONBLOCK on the shared terminal: nothing is lost or cut."""
    reader, writer = pipe
    os.set_blocking(writer, False)
    log = LogWriter(as_json, descriptor=writer)
    for _ in range(1_000):  # several times what a pipe holds
        log.request(DECISION, [])
    chunks = []
    while b"".join(chunks).count(b"\n") < 1_000:
        chunks.append(os.read(reader, 4096))
    log.close()
    assert all(orjson.loads(line)["request_id"] == "req-1" for line in b"".join(chunks).splitlines())


def test_a_blocked_log_does_not_keep_the_process(tmp_path: Path) -> None:
    """The program ends in time and with its own exit status though nobody empties its standard error."""
    program = (
        "import logging\n"
        "from serving.telemetry.log import start_logging\n"
        "with start_logging('json'):\n"
        "    for _ in range(3000):\n"
        "        logging.getLogger('x').warning('w' * 200)\n"
        "raise SystemExit(7)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, cwd=REPOSITORY) as process:
        try:
            assert process.wait(timeout=20) == 7
        finally:
            process.kill()


def test_auto_is_text_on_a_terminal_and_json_elsewhere(
    pipe: tuple[int, int], quiet_root: logging.Logger
) -> None:
    """The format follows the stream."""
    controller, terminal = os.openpty()
    with start_logging("auto", descriptor=terminal):
        logging.getLogger("serving.x").warning("hello")
    assert re.fullmatch(rb"[\d:.]{12} WARNING hello\r\n", os.read(controller, 1024))
    os.close(terminal)
    os.close(controller)

    reader, writer = pipe
    with start_logging("auto", descriptor=writer):
        logging.getLogger("serving.x").warning("hello")
    os.close(writer)
    assert orjson.loads(read_to_end(reader))["message"] == "hello"


def test_uvicorn_reports_here_and_its_access_log_is_off(
    pipe: tuple[int, int], quiet_root: logging.Logger
) -> None:
    """Set up as `start_logging` says, uvicorn's errors are our lines and its access lines are nobody's."""
    reader, writer = pipe
    with start_logging("json", descriptor=writer):
        uvicorn.Config(app="none", log_config=None, access_log=False)
        logging.getLogger("uvicorn.error").error("from uvicorn")
        logging.getLogger("uvicorn.access").info("GET /v1/models?key=tw-secret")
    os.close(writer)
    assert [orjson.loads(line)["message"] for line in read_to_end(reader).splitlines()] == ["from uvicorn"]


def test_a_wrong_format_string_is_said_and_not_raised(pipe: tuple[int, int]) -> None:
    """A slip in a log call becomes a line about the slip."""
    reader, writer = pipe
    logger = logging.Logger("serving.x")
    with LogWriter(as_json, descriptor=writer) as log:
        logger.addHandler(log)
        logger.warning("%d apples", "three")
    os.close(writer)
    assert "serving.x logged '%d apples' wrongly" in orjson.loads(read_to_end(reader))["message"]


def test_logging_a_request_costs_the_event_loop_little() -> None:
    """Under 50 µs a request, best of many (8 µs were measured)."""
    with Path(os.devnull).open("wb") as sink, LogWriter(as_json, descriptor=sink.fileno()) as log:
        assert min(timeit.repeat(lambda: log.request(DECISION, []), number=50, repeat=40)) / 50 < 50e-6
