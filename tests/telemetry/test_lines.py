"""Tests of serving.telemetry.lines."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace

import orjson
import pytest

from serving.ledger.records import AttemptRecord, Outcome, Usage
from serving.telemetry.lines import as_json, as_text, message_fields, request_fields
from tests import ledger_records

KEY = "tw-" + "Ab3_-" * 8 + "xyz"

DECISION = replace(
    ledger_records.DECISION,
    session="session-text",
    arm="full",
    tier="full",
    candidates='["candidate-text"]',
    num_attempts=2,
    prompt="prompt-text",
)
FAILED = AttemptRecord(
    request_id="req-1",
    attempt=0,
    arm="full",
    tier="full",
    replica="http://10.0.0.1:80",
    started_s=0.01,
    first_byte_s=None,
    first_token_s=None,
    ended_s=0.1,
    is_committed=False,
    status=None,
    outcome=Outcome.FAILURE,
    error="error-text",
    usage=Usage(prompt_tokens=1),
    cost=0.0,
)
ANSWERED = replace(
    FAILED,
    attempt=1,
    first_token_s=0.25,
    ended_s=1.25,
    is_committed=True,
    outcome=Outcome.SUCCESS,
    usage=Usage(prompt_tokens=12, completion_tokens=34),
)


def message(text: str, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("serving.x", level, __file__, 1, text, args, None)


def test_a_request_is_one_json_line_of_fixed_keys() -> None:
    """The tokens and the first token are those of the attempt that the client saw, not of the failed one."""
    line = as_json(request_fields(DECISION, [FAILED, ANSWERED], at=1_700_000_000.5))
    assert line.count("\n") == 1
    assert orjson.loads(line) == {
        "ts": "2023-11-14T22:13:20.500Z",
        "level": "info",
        "event": "request",
        "request_id": "req-1",
        "key": "app",
        "endpoint": "chat",
        "model": "auto",
        "arm": "full",
        "tier": "full",
        "reason": "best_value",
        "status": 200,
        "ttft_ms": 250.0,
        "total_ms": 1250.0,
        "prompt_tokens": 12,
        "completion_tokens": 34,
        "cost": 0.002,
        "attempts": 2,
        "error_code": None,
    }


def test_a_line_has_the_same_keys_where_there_was_no_attempt_and_no_stream() -> None:
    """A collector's schema does not change with a request's fate."""
    refused = replace(DECISION, arm=None, tier=None, reason=None, status=401, num_attempts=0)
    whole = replace(DECISION, is_streaming=False)
    keys = request_fields(DECISION, [ANSWERED], at=0.0).keys()
    assert request_fields(refused, [], at=0.0).keys() == keys
    assert request_fields(whole, [ANSWERED], at=0.0).keys() == keys
    assert request_fields(whole, [ANSWERED], at=0.0)["ttft_ms"] is None


@pytest.mark.parametrize(("status", "level"), [(200, "info"), (404, "info"), (499, "info"), (502, "warning")])
def test_only_faults_that_are_not_the_clients_are_warnings(status: int, level: str) -> None:
    """A client's mistakes and departures do not page anyone."""
    assert request_fields(replace(DECISION, status=status), [], at=0.0)["level"] == level


@pytest.mark.parametrize("render", [as_json, as_text])
def test_a_request_line_holds_no_text_of_the_request(render) -> None:
    """Neither prompt, session, candidates, replica nor the upstream's words are in it."""
    line = render(request_fields(DECISION, [FAILED, ANSWERED], at=0.0))
    for text in ("prompt-text", "session-text", "candidate-text", "error-text", "10.0.0.1"):
        assert text not in line


@pytest.mark.parametrize("render", [as_json, as_text])
@pytest.mark.parametrize(
    "text",
    [
        f"refused {KEY}",
        f"line\n{KEY}\n",
        f'"{KEY}"',
        f"authorization: Bearer {KEY}",
        "Authorization: bearer abc.def-ghi",
        "key sk-proj-abcdefghijklmnop1234",
        "cannot reach postgresql://user:hunter22@db/ledger",
    ],
)
def test_credentials_are_masked_wherever_they_appear(render, text: str) -> None:
    """In a message, an exception and the model's name alike, next to quotes and line ends too."""
    try:
        raise ValueError(text)
    except ValueError:
        raised = logging.LogRecord("serving.x", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    lines = (
        render(message_fields(message("%s", text)))
        + render(message_fields(raised))
        + render(request_fields(replace(DECISION, model=text), [], at=0.0))
    )
    assert lines.count("[secret]") >= 3
    for secret in (KEY, "abc.def-ghi", "abcdefghijklmnop1234", "hunter22"):
        assert secret not in lines


def test_a_masked_line_is_still_json() -> None:
    """A secret before an escaped quote does not take half of the escape with it."""
    fields = message_fields(message("%s", 'Bearer abc\\"def and "more"'))
    assert orjson.loads(as_json(fields))["message"].startswith("Bearer [secret]")


def test_text_lines_cannot_be_forged() -> None:
    """Escape codes and line ends that a client sends are shown, not obeyed."""
    line = as_text(request_fields(replace(DECISION, model="x\n12:00:00.000 ERROR \x1b[2J\u202e"), [], at=0.0))
    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    body = as_text(message_fields(message("one\r\ntwo\x1b[2J\tthree")))
    assert body == "00:00:00.000 INFO    one\n    two\\x1b[2J\tthree\n".replace("00:00:00.000", body[:12])


def test_a_request_reads_well_as_text() -> None:
    """Status, what was asked and chosen, times, tokens, in one line."""
    line = as_text(request_fields(DECISION, [FAILED, ANSWERED], at=1_700_000_000.5))
    assert line == (
        "22:13:20.500 INFO    200 chat auto → full (best_value), first token 250 ms, total 1250 ms, "
        "12+34 tokens, 2 attempts, key app, req-1\n"
    )


def test_bytes_that_are_not_utf8_do_not_stop_a_line() -> None:
    """A file name with lone surrogates is written escaped, as JSON and as text."""
    fields = message_fields(message("cannot open %s", "caf\udce9.gguf"))
    assert "caf\\\\udce9" in as_json(fields)
    assert "caf\\udce9" in as_text(fields)


def test_an_exception_goes_with_its_message() -> None:
    """The traceback is a member of the JSON object and follows the text, indented."""
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        record = logging.LogRecord("serving.x", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    fields = message_fields(record)
    assert "RuntimeError: boom" in orjson.loads(as_json(fields))["exception"]
    assert "\n    RuntimeError: boom\n" in as_text(fields)
