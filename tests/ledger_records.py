"""One request and its one attempt, as records; tests vary them with `dataclasses.replace`."""

from __future__ import annotations

from serving.ledger.records import AttemptRecord, DecisionRecord, Outcome, Usage

DECISION = DecisionRecord(
    request_id="req-1",
    created_at=1_000.0,
    endpoint="chat",
    key="app",
    session=None,
    model="auto",
    is_streaming=True,
    arm="fast",
    tier="fast",
    reason="best_value",
    success_probability=0.9,
    expected_cost=0.1,
    metric="cost_per_request",
    price_of_compute=500.0,
    propensity=1.0,
    policy_version="p1",
    artifact_version="a1",
    candidates="[]",
    num_input_chars=20,
    status=200,
    error_code=None,
    num_attempts=1,
    total_s=1.25,
    cost=0.002,
    prompt=None,
)
ATTEMPT = AttemptRecord(
    request_id="req-1",
    attempt=0,
    arm="fast",
    tier="fast",
    replica="http://127.0.0.1:1",
    started_s=0.01,
    first_byte_s=0.1,
    first_token_s=0.25,
    ended_s=1.25,
    is_committed=True,
    status=200,
    outcome=Outcome.SUCCESS,
    error=None,
    usage=Usage(prompt_tokens=12, completion_tokens=34, cached_tokens=5),
    cost=0.002,
)
