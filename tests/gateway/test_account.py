"""The books of one request: what each way to end enters into them."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from router.decision import Candidate, Decision, Exclusion, Reason
from router.offer import ArmOffer, Metric, Offer, Spend
from router.propensity import PolicyTerms
from router.request import RequestView
from serving.gateway.account import Account, AttemptEntry
from serving.gateway.errors import ApiError
from serving.gateway.fleet import Fleet, Tier
from serving.ledger.records import Outcome, Usage
from serving.settings import Settings
from serving.upstream.pool import Pool


class Reader:
    """An answer's reader that has read so much."""

    is_complete = False

    def __init__(self, usage: Usage, num_tokens: int = 0) -> None:
        self.usage = usage
        self.num_tokens = num_tokens

    def whole(self, body: bytes) -> bytes:
        return body

    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def finish(self) -> bytes:
        return b""

    def error_event(self, error: ApiError) -> bytes:
        return error.body


@pytest.fixture
def tier() -> Tier:
    """Prices of 1 and 4 a million."""
    engine = {"type": "external", "urls": ["http://127.0.0.1:1"]}
    tiers = {"full": {"engine": engine, "price": {"input": 1.0, "output": 4.0}}}
    pool = Pool("full", max_queue=1, queue_timeout_s=1.0, clock=lambda: 0.0, rng=random.Random(0))
    return Fleet(Settings.model_validate({"tiers": tiers}), [pool])["full"]


@pytest.fixture
def account() -> Account:
    """Opened at 10 s of the monotonic clock; 400 characters in one turn: 100 + 16 tokens by estimate."""
    view = RequestView(endpoint="chat", model="auto", turns=("secret task",), num_chars=400)
    return Account(request_id="r1", endpoint="chat", created_at=1e9, arrived=10.0, view=view, model="auto")


def entry(tier: Tier, reader: Reader, **members: object) -> AttemptEntry:
    return AttemptEntry(tier=tier, arm="full", reader=reader, started=10.5, **members)  # type: ignore[arg-type]


USED = Usage(prompt_tokens=1000, completion_tokens=500)


@pytest.mark.parametrize(
    ("usage", "num_tokens", "first_token", "cost"),
    [
        pytest.param(USED, 0, 11.0, 0.003, id="by usage"),
        pytest.param(USED, 0, None, 0.003, id="by usage, though nothing was sent"),
        pytest.param(Usage(), 0, None, 0.0, id="nothing was generated"),
        pytest.param(Usage(), 50, 11.0, (116 + 4 * 50) / 1e6, id="cut before its usage came"),
        pytest.param(Usage(prompt_tokens=1000), 50, 11.0, (1000 + 4 * 50) / 1e6, id="half a usage"),
    ],
)
def test_cost_of_an_attempt(
    account: Account, tier: Tier, usage: Usage, num_tokens: int, first_token: float | None, cost: float
) -> None:
    """Usage where it came, else what was seen of the stream and the estimate of the prompt, else nothing."""
    with account.attempt(entry(tier, Reader(usage, num_tokens), first_token=first_token), lambda: 12.0):
        pass
    assert account.cost == pytest.approx(cost)


def test_every_attempt_is_entered_however_it_ends(account: Account, tier: Tier) -> None:
    """Success, an error, a cancellation and a mistake of ours are each an attempt, in order, and costs add up."""
    ends: list[tuple[Outcome | None, type[BaseException] | None]] = [
        (Outcome.OVERLOADED, ApiError),
        (Outcome.CANCELLED, asyncio.CancelledError),
        (None, ValueError),
        (Outcome.SUCCESS, None),
    ]
    for outcome, raised in ends:
        try:
            with account.attempt(entry(tier, Reader(USED)), lambda: 12.0) as open_entry:
                open_entry.outcome = outcome
                open_entry.error = "told" if outcome else None
                if raised is ApiError:
                    raise ApiError(503, "x")
                if raised is not None:
                    raise raised("the text of a prompt")
        except (ApiError, asyncio.CancelledError, ValueError):
            pass
    assert [attempt.attempt for attempt in account.attempts] == [0, 1, 2, 3]
    outcomes = [attempt.outcome for attempt in account.attempts]
    assert outcomes == [Outcome.OVERLOADED, Outcome.CANCELLED, Outcome.FAILURE, Outcome.SUCCESS]
    assert account.attempts[2].error == "the gateway failed"
    assert account.cost == pytest.approx(4 * 0.003)


def test_times_count_from_the_arrival(account: Account, tier: Tier) -> None:
    """Started after 0.5 s, first byte after 1, first token after 1.25, ended after 2; what never came is None."""
    times = {"first_byte": 11.0, "first_token": 11.25}
    with account.attempt(entry(tier, Reader(USED), **times), lambda: 12.0):
        pass
    (record,) = account.attempts
    told = (record.started_s, record.first_byte_s, record.first_token_s, record.ended_s)
    assert told == (0.5, 1.0, 1.25, 2.0)
    with account.attempt(entry(tier, Reader(Usage())), lambda: 12.0):
        pass
    assert account.attempts[1].first_byte_s is None
    assert account.attempts[1].first_token_s is None


def test_a_request_that_ended_before_its_decision_is_recorded() -> None:
    """401 and 400 have a line of their own, without an arm."""
    account = Account(request_id="r1", endpoint="chat", created_at=1e9, arrived=10.0)
    account.status, account.error_code = 401, "invalid_api_key"
    record = account.record(10.25, store_prompt=True)
    assert (record.status, record.error_code, record.total_s) == (401, "invalid_api_key", 0.25)
    assert (record.arm, record.tier, record.reason, record.prompt) == (None, None, None, None)
    assert (record.candidates, record.num_attempts, record.cost) == ("[]", 0, 0)


@pytest.mark.parametrize("store_prompt", [True, False])
def test_the_prompt_is_stored_only_where_asked_for(account: Account, store_prompt: bool) -> None:
    """A decision holds every candidate, and the task's text only by the operator's wish; long names are cut."""
    account.model = "m" * 1000
    account.decision = Decision(
        arm="full",
        tier="full",
        reason=Reason.ONLY_AVAILABLE,
        success_probability=0.9,
        expected=Spend(cost=0.001, engine_seconds=0.0, full_share=1.0),
        candidates=(
            Candidate(
                arm="full",
                tier="full",
                success_probability=0.91239,
                weighed_probability=0.91239,
                expected=Spend(cost=0.001, engine_seconds=0.0, full_share=1.0),
            ),
            Candidate(
                arm="fast",
                tier="fast",
                success_probability=0.5,
                weighed_probability=0.25,
                expected=Spend(cost=0.0001, engine_seconds=1.5, full_share=0.0),
                excluded=Exclusion.UNAVAILABLE,
                raw_probability=0.75,
            ),
        ),
        offer=Offer(
            arms=(
                ArmOffer(
                    success_probability=0.91239,
                    expected=Spend(cost=0.001, engine_seconds=0.0, full_share=1.0),
                ),
            )
        ),
        position=0,
        metric=Metric.COST_PER_REQUEST,
        price_of_compute=500.0,
        propensity=1.0,
        chances=(1.0,),
        terms=PolicyTerms(metric=Metric.COST_PER_REQUEST, price_of_compute=510.0, spread=0.1),
        lot=0.75,
        policy_version="p",
        artifact_version="a",
    )
    record = account.record(11.0, store_prompt=store_prompt)
    assert record.prompt == ("secret task" if store_prompt else None)
    assert len(record.model) == 200
    assert json.loads(record.candidates) == [
        {
            "arm": "full",
            "p": 0.91239,
            "raw": 0.91239,
            "weighed": 0.91239,
            "cost": 0.001,
            "seconds": 0.0,
            "full": 1.0,
            "excluded": None,
            "chance": 1.0,
        },
        {
            "arm": "fast",
            "p": 0.5,
            "raw": 0.75,
            "weighed": 0.25,
            "cost": 0.0001,
            "seconds": 1.5,
            "full": 0.0,
            "excluded": "unavailable",
            "chance": None,
        },
    ]
    assert ("secret" in repr(record)) is store_prompt
