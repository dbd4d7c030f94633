"""One attempt at one replica: asks, relays, and says how it ended. Here alone upstream errors get an HTTP status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from router.decision import Decision
from serving.gateway import errors
from serving.gateway.account import Account, AttemptEntry
from serving.gateway.errors import ApiError
from serving.gateway.exchange import ClientDisconnectedError, Exchange, Header
from serving.gateway.fleet import Tier
from serving.gateway.protocols.base import Forward
from serving.ledger.records import Outcome
from serving.telemetry.metrics import Metrics
from serving.upstream.client import UpstreamClient
from serving.upstream.errors import (
    FirstTokenTimeout,
    IdleTimeout,
    NoReplica,
    Overloaded,
    TotalTimeout,
    UpstreamError,
)
from serving.upstream.pool import Lease
from serving.upstream.response import UpstreamResponse

MAX_ANSWER_BYTES: Final = 256 * 2**20
MAX_ERROR_BYTES: Final = 64 * 2**10
OVERLOADED_STATUSES: Final = frozenset({429, 503, 529})
MISCONFIGURED_STATUSES: Final = frozenset({401, 403, 404, 405})
"""4xx answers that speak of how the gateway reached the engine, and not of the client's request."""


class AttemptFailedError(Exception):
    """An attempt ended before its answer was committed. `error` is what the client is told unless another succeeds."""

    def __init__(self, error: ApiError, *, is_retryable: bool, replica: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.is_retryable = is_retryable
        self.replica = replica


class Attempt:
    """Runs attempts for one exchange.

    Args:
        exchange: where the answer goes.
        account: where it is entered.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        exchange: Exchange,
        account: Account,
        client: UpstreamClient,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._exchange = exchange
        self._account = account
        self._client = client
        self._metrics = metrics
        self._clock = clock

    async def run(self, decision: Decision, tier: Tier, forward: Forward, without: frozenset[str]) -> None:
        """Send the request to a replica of `tier` and relay its answer.

        Args:
            without: URLs of replicas that have failed this request already.

        Raises:
            AttemptFailedError: nothing has been sent to the client yet.
            ApiError: the stream has begun and broke off; the client has not been told.
        """
        entry = AttemptEntry(tier=tier, arm=decision.arm, reader=forward.reader, started=self._clock())
        self._account.reader = forward.reader
        with self._account.attempt(entry, self._clock), self._classified(entry):
            async with tier.pool.lease(exclude=without) as lease:
                self._metrics.tier(tier.name).queue_seconds.observe(self._clock() - entry.started)
                entry.replica = lease.replica.url
                try:
                    await self._ask(entry, lease, forward, decision)
                finally:
                    lease.outcome = entry.outcome

    async def _ask(self, entry: AttemptEntry, lease: Lease, forward: Forward, decision: Decision) -> None:
        headers = {"x-request-id": self._account.request_id}
        deadlines = entry.tier.deadlines
        if not self._account.is_streaming:
            deadlines = deadlines.for_whole_answer()
        async with self._client.post(
            lease.replica.endpoint, forward.path, forward.body, headers, deadlines, self._account.arrived
        ) as response:
            entry.first_byte = self._clock()
            entry.status = response.status
            if response.status >= 400:
                lease.retry_after_s = response.retry_after_s
                await self._refuse(entry, response)
            elif self._account.is_streaming:
                await self._relay(entry, response, decision)
            else:
                await self._answer(entry, response, decision)
        entry.outcome = Outcome.SUCCESS

    async def _refuse(self, entry: AttemptEntry, response: UpstreamResponse) -> None:
        body = await response.read(MAX_ERROR_BYTES)
        status, tier = response.status, entry.tier.name
        entry.error = f"upstream status {status}"
        if status in OVERLOADED_STATUSES:
            entry.outcome = Outcome.OVERLOADED
            error = ApiError(
                status,
                f"The {tier} tier is overloaded.",
                kind="overloaded_error",
                code="overloaded",
                retry_after_s=response.retry_after_s or 1.0,
            )
            raise AttemptFailedError(error, is_retryable=True, replica=entry.replica)
        if status >= 500 or status in MISCONFIGURED_STATUSES:
            entry.outcome = Outcome.FAILURE
            error = errors.failed_upstream(status, tier)
            raise AttemptFailedError(error, is_retryable=True, replica=entry.replica)
        entry.outcome = Outcome.REJECTED
        rejected = errors.rejected_by_upstream(status, body, tier)
        raise AttemptFailedError(rejected, is_retryable=False, replica=entry.replica)

    async def _answer(self, entry: AttemptEntry, response: UpstreamResponse, decision: Decision) -> None:
        body = entry.reader.whole(await response.read(MAX_ANSWER_BYTES))
        usage = entry.reader.usage
        cost = entry.tier.cost(
            num_input_tokens=usage.prompt_tokens or 0, num_output_tokens=usage.completion_tokens or 0
        )
        entry.is_committed = True
        await self._exchange.respond(200, body, self._headers(decision, cost))
        entry.first_token = self._clock()

    async def _relay(self, entry: AttemptEntry, response: UpstreamResponse, decision: Decision) -> None:
        reader, exchange = entry.reader, self._exchange
        observe_gap = self._metrics.token_gap(entry.tier.name)
        last_token = 0.0
        num_tokens = 0
        async for chunk in response.chunks():
            events = reader.feed(chunk)
            if not events:
                continue
            if not entry.is_committed:
                entry.is_committed = True
                await exchange.start(200, [*_STREAM_HEADERS, *self._headers(decision, None)])
            await exchange.send(events)
            if reader.num_tokens > num_tokens:
                now = self._clock()
                if entry.first_token is None:
                    entry.first_token = last_token = now
                    num_tokens += 1
                for _ in range(reader.num_tokens - num_tokens):  # tokens that came together: no gap but the first
                    observe_gap(now - last_token)
                    last_token = now
                num_tokens = reader.num_tokens
        await self._end(entry, decision)

    async def _end(self, entry: AttemptEntry, decision: Decision) -> None:
        tail = entry.reader.finish()
        if not entry.is_committed:
            entry.is_committed = True
            await self._exchange.start(200, [*_STREAM_HEADERS, *self._headers(decision, None)])
        await self._exchange.send(tail, is_last=True)

    def _headers(self, decision: Decision, cost: float | None) -> list[Header]:
        return [*request_headers(self._account.request_id), *decision_headers(decision, cost)]

    @contextmanager
    def _classified(self, entry: AttemptEntry) -> Iterator[None]:
        """Give every way out of an attempt its outcome, and every error its HTTP status."""
        try:
            yield
        except (AttemptFailedError, ClientDisconnectedError):
            raise
        except asyncio.CancelledError:
            entry.outcome = Outcome.CANCELLED
            entry.error = "cancelled"
            raise
        except UpstreamError as error:
            entry.outcome = error.outcome
            entry.error = str(error)
            raise self._failure(entry, _api_error(error, entry.tier.name), error.is_retryable) from error
        except ApiError as error:
            entry.outcome = Outcome.FAILURE
            entry.error = error.message
            raise self._failure(entry, error, is_retryable=True) from error

    def _failure(self, entry: AttemptEntry, error: ApiError, is_retryable: bool) -> Exception:
        if entry.is_committed:
            return error
        return AttemptFailedError(error, is_retryable=is_retryable, replica=entry.replica)


_STREAM_HEADERS: Final[list[Header]] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def request_headers(request_id: str) -> list[Header]:
    """What every answer carries, errors included."""
    return [(b"x-request-id", request_id.encode())]


def decision_headers(decision: Decision, cost: float | None) -> list[Header]:
    """Who answers and why. `cost` is None for a stream, whose usage is not known yet: the expected cost is told."""
    shown, basis = (decision.expected_cost, b"expected") if cost is None else (cost, b"usage")
    return [
        (b"x-tierwise-tier", decision.tier.encode()),
        (b"x-tierwise-arm", decision.arm.encode()),
        (b"x-tierwise-reason", decision.reason.value.encode()),
        (b"x-tierwise-success-probability", b"%.4f" % decision.success_probability),
        (b"x-tierwise-escalated", b"false"),
        (b"x-tierwise-cost", f"{shown:.9f}".encode()),
        (b"x-tierwise-cost-basis", basis),
    ]


def _api_error(error: UpstreamError, tier: str) -> ApiError:
    if isinstance(error, Overloaded):
        return ApiError(
            429,
            f"The {tier} tier has no room: {error}",
            kind="overloaded_error",
            code="overloaded",
            retry_after_s=error.retry_after_s,
        )
    if isinstance(error, NoReplica):
        return ApiError(503, f"The {tier} tier is down.", code="tier_unavailable", retry_after_s=2.0)
    status = 504 if isinstance(error, FirstTokenTimeout | IdleTimeout | TotalTimeout) else 502
    return ApiError(status, f"The {tier} tier failed: {error}", code=error.code, should_retry=False)
