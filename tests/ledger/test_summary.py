"""Tests of serving.ledger.summary."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.query import open_for_reading
from serving.ledger.records import AttemptRecord, DecisionRecord, Outcome, Usage
from serving.ledger.summary import Group, Summary, summarize
from serving.ledger.tables import attempt_row, decision_row

MakeDecision = Callable[..., DecisionRecord]
MakeAttempt = Callable[..., AttemptRecord]


def summarized(
    home: Path,
    decided: list[DecisionRecord],
    attempted: list[tuple[AttemptRecord, float]],
    since: float | None = None,
) -> Summary:
    database = LedgerDatabase(ledger_url(None, home))
    database.write(
        1,
        decision_rows=[decision_row(record) for record in decided],
        attempt_rows=[attempt_row(record, recorded_at=at) for record, at in attempted],
    )
    database.close()
    with open_for_reading(ledger_url(None, home)) as connection:
        return summarize(connection, since)


def test_worked_numbers(tmp_path: Path, make_decision: MakeDecision, make_attempt: MakeAttempt) -> None:
    """Three requests: two on fast, one escalated from fast to full after a failure."""
    decided = [
        make_decision(request_id="a", total_s=1.0, cost=0.1),
        make_decision(request_id="b", total_s=3.0, cost=0.2, is_streaming=False),
        make_decision(
            request_id="c", tier="full", arm="full", total_s=5.0, cost=0.7, num_attempts=2, status=502
        ),
    ]
    attempted = [
        make_attempt(request_id="a", usage=Usage(prompt_tokens=10, completion_tokens=1, cached_tokens=4)),
        make_attempt(request_id="b", usage=Usage(prompt_tokens=20, completion_tokens=2)),
        make_attempt(
            request_id="c", usage=Usage(prompt_tokens=30), is_committed=False, outcome=Outcome.FAILURE
        ),
        make_attempt(
            request_id="c", attempt=1, tier="full", arm="full", outcome=Outcome.CANCELLED, usage=Usage()
        ),
    ]
    summary = summarized(tmp_path, decided, [(record, 2_000.0) for record in attempted])
    none = dict.fromkeys((outcome.value for outcome in Outcome), 0)
    assert summary.groups[0] == Group(
        tier="fast",
        arm="fast",
        reason="best_value",
        num_requests=2,
        share=2 / 3,
        prompt_tokens=30,
        completion_tokens=3,
        cached_tokens=4,
        cost=pytest.approx(0.3),
        total_p50_s=1.0,
        total_p95_s=3.0,
        ttft_p50_s=0.25,
        ttft_p95_s=0.25,
        outcomes=none | {"success": 2},
        num_retries=0,
        num_escalated=0,
        num_errors=0,
    )
    assert summary.groups[1] == Group(
        tier="full",
        arm="full",
        reason="best_value",
        num_requests=1,
        share=1 / 3,
        prompt_tokens=30,
        completion_tokens=0,
        cached_tokens=0,
        cost=0.7,
        total_p50_s=5.0,
        total_p95_s=5.0,
        ttft_p50_s=0.25,
        ttft_p95_s=0.25,
        outcomes=none | {"failure": 1, "cancelled": 1},
        num_retries=1,
        num_escalated=1,
        num_errors=1,
    )
    total = summary.total
    assert total is not None
    assert (total.tier, total.arm, total.reason, total.share) == (None, None, None, 1.0)
    assert (total.num_requests, total.prompt_tokens, total.num_escalated) == (3, 60, 1)
    assert (total.total_p50_s, total.total_p95_s) == (3.0, 5.0)


def nearest_rank(values: list[float], percent: int) -> float | None:
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1] if values else None


@pytest.mark.parametrize("seed", range(3))
def test_the_summary_agrees_with_a_plain_sum_over_the_records(
    tmp_path: Path, make_decision: MakeDecision, make_attempt: MakeAttempt, seed: int
) -> None:
    """Counts, sums and percentiles of random requests, in every group and together."""
    rng = random.Random(seed)
    decided, attempted = [], []
    for number in range(150):
        tier = rng.choice([None, "fast", "full"])
        request = make_decision(
            request_id=str(number),
            tier=tier,
            arm=tier,
            reason=tier and rng.choice(["best_value", "client_model"]),
            is_streaming=rng.random() < 0.5,
            total_s=rng.choice([rng.random(), 0.5]),  # with ties
            cost=rng.random(),
            status=rng.choice([200, 200, 429, 500]),
            num_attempts=rng.randrange(4) if tier else 0,
        )
        decided.append(request)
        for index in range(request.num_attempts):
            usage = Usage(prompt_tokens=rng.choice([None, 5]), completion_tokens=rng.choice([None, 7]))
            attempted.append(
                make_attempt(
                    request_id=str(number),
                    attempt=index,
                    tier=rng.choice(["fast", "full"]),
                    is_committed=index == request.num_attempts - 1,
                    first_token_s=rng.choice([None, rng.random()]),
                    outcome=rng.choice(list(Outcome)),
                    usage=usage,
                )
            )
    summary = summarized(tmp_path, decided, [(record, 2_000.0) for record in attempted])
    assert summary.total is not None
    keys = {(request.tier, request.arm, request.reason) for request in decided}
    assert {(group.tier, group.arm, group.reason) for group in summary.groups} == keys
    for group in (summary.total, *summary.groups):
        is_all = group is summary.total
        mine = [
            request
            for request in decided
            if is_all or (request.tier, request.arm, request.reason) == (group.tier, group.arm, group.reason)
        ]
        ids = {request.request_id for request in mine}
        tried = [attempt for attempt in attempted if attempt.request_id in ids]
        streams = {request.request_id for request in mine if request.is_streaming}
        first_tokens = [
            attempt.first_token_s
            for attempt in tried
            if attempt.is_committed and attempt.request_id in streams and attempt.first_token_s is not None
        ]
        totals = [request.total_s for request in mine]
        assert group.num_requests == len(mine)
        assert group.share == len(mine) / len(decided)
        assert group.cost == pytest.approx(sum(request.cost for request in mine))
        assert group.prompt_tokens == sum(attempt.usage.prompt_tokens or 0 for attempt in tried)
        assert group.completion_tokens == sum(attempt.usage.completion_tokens or 0 for attempt in tried)
        assert (group.total_p50_s, group.total_p95_s) == (nearest_rank(totals, 50), nearest_rank(totals, 95))
        assert group.ttft_p50_s == nearest_rank(first_tokens, 50)
        assert group.ttft_p95_s == nearest_rank(first_tokens, 95)
        outcomes = Counter(attempt.outcome.value for attempt in tried)
        assert group.outcomes == {outcome.value: outcomes[outcome.value] for outcome in Outcome}
        assert group.num_retries == sum(max(0, request.num_attempts - 1) for request in mine)
        assert group.num_escalated == sum(
            len({attempt.tier for attempt in tried if attempt.request_id == id_}) > 1 for id_ in ids
        )
        assert group.num_errors == sum(request.status >= 400 for request in mine)


def test_since_takes_requests_by_their_arrival(
    tmp_path: Path, make_decision: MakeDecision, make_attempt: MakeAttempt
) -> None:
    """The moment itself belongs to the span; an earlier request's attempts do not leak into it."""
    decided = [make_decision(request_id=str(at), created_at=float(at)) for at in (99, 100, 101)]
    attempted = [(make_attempt(request_id=str(at)), at + 1.25) for at in (99, 100, 101)]
    summary = summarized(tmp_path, decided, attempted, since=100.0)
    assert summary.total is not None
    assert (summary.total.num_requests, summary.total.prompt_tokens) == (2, 24)


def test_a_request_id_that_a_client_sent_twice_counts_its_tokens_once(
    tmp_path: Path, make_decision: MakeDecision, make_attempt: MakeAttempt
) -> None:
    """Two requests and two attempts under one id are two requests and the sum of both attempts."""
    decided = [make_decision(request_id="same"), make_decision(request_id="same")]
    attempted = [(make_attempt(request_id="same"), 2_000.0)] * 2
    summary = summarized(tmp_path, decided, attempted)
    assert summary.total is not None
    assert (summary.total.num_requests, summary.total.prompt_tokens) == (2, 24)
    assert summary.total.outcomes["success"] == 2


def test_an_empty_span_has_no_total(tmp_path: Path, make_decision: MakeDecision) -> None:
    """Nothing is not zero seconds at the median."""
    summary = summarized(tmp_path, [make_decision(created_at=1.0)], [], since=2.0)
    assert summary == Summary(since=2.0, total=None, groups=())
