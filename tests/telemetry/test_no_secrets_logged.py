"""Keys, ledger, log and metrics together, as a process, with secrets in every place where one could slip in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROMPT = "the prompt's private words"

_PROGRAM = """
import logging, sys, time
from pathlib import Path
from prometheus_client import CollectorRegistry
from serving.gateway.keys import KeyStore, KeyStoreError
from serving.ledger.database import LedgerError
from serving.ledger.records import AttemptRecord, DecisionRecord, Outcome, Usage
from serving.ledger.settings import LedgerSettings
from serving.ledger.store import Ledger
from serving.telemetry.log import start_logging
from serving.telemetry.metrics import Metrics

home, log_format, prompt = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
keys = KeyStore(home / "keys.json")
key = keys.create("app")
print(key)
metrics = Metrics(CollectorRegistry(), tiers=("fast",), arms=("fast",), version="1")
decision = DecisionRecord(
    request_id="r", created_at=1.0, endpoint="chat", key="app", session=None, model=key, is_streaming=True, arm=key,
    tier=key, reason=key, success_probability=None, expected_cost=None, metric=None, price_of_compute=None,
    propensity=None, quality_floor=None, is_curtailed=None, middle_price=None, spread=None, exploration_share=None,
    lot=None, engine_seconds=0.0, full_share=None,
    policy_version=None, artifact_version=None, candidates="[]", num_input_chars=1, status=502, error_code=key,
    num_attempts=1, total_s=1.0, cost=float("nan"), prompt=prompt,
)
attempt = AttemptRecord(
    request_id="r", attempt=0, arm="fast", tier="fast", replica="http://127.0.0.1:1", started_s=0.0, first_byte_s=None,
    first_token_s=None, ended_s=1.0, is_committed=True, status=401, outcome=Outcome.REJECTED,
    error=f"upstream said: Bearer {key} is wrong", usage=Usage(), cost=0.0,
)
with start_logging(log_format, "debug") as log:
    keys.verify(key), keys.verify(key + "x"), keys.revoke("app")
    ledger = Ledger(LedgerSettings(flush_interval_s=0.01), home, on_dropped=lambda count: None)
    ledger.record_decision(decision)  # its cost makes it a row that cannot be written, which is logged
    ledger.record_attempt(attempt)
    ledger.close()
    log.request(decision, [attempt])
    metrics.request_started(key)
    metrics.decided(key, key)
    metrics.stream_failed(key, key)
    metrics.attempt_ended(attempt, is_streaming=True)
    metrics.request_ended(key, tier=key, arm=key, code=502, seconds=1.0)
    logging.getLogger("aiohttp").error("cannot connect to http://user:hunter2@127.0.0.1:1")
    try:
        raise ValueError(f"headers were {{'authorization': 'Bearer {key}'}}")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    try:
        Ledger(LedgerSettings(url="nosuchbase://user:hunter2@host/name"), home)
    except LedgerError as error:
        logging.getLogger("serving").error("%s", error)
    (home / "keys.json").write_text('{"format": 1, "keys": [{"surplus": "' + key + '"}]}')
    try:
        keys.records()
    except KeyStoreError as error:
        logging.getLogger("serving").error("%s", error)
(home / "metrics.txt").write_bytes(metrics.render())
(home / "keys.json").unlink()
"""


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_nothing_secret_is_logged_exported_or_kept(tmp_path: Path, log_format: str) -> None:
    """Neither key, prompt nor password is in the log, the metrics, the ledger or the files of the keys."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path), log_format, PROMPT],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
        check=False,
    )
    log = done.stderr.decode()
    assert done.returncode == 0, log
    key = done.stdout.decode().strip()
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir()).decode(errors="replace")
    for secret in (key, key.removeprefix("tw-"), PROMPT, "hunter2"):
        assert secret not in log
        assert secret not in files
    # All of it was said, only without the secrets.
    for text in (
        "[secret]",
        "NOT NULL constraint failed",
        "502",
        "Exception in ASGI application",
        "is damaged",
    ):
        assert text in log
    if log_format == "json":
        assert all(json.loads(line) for line in log.splitlines())
