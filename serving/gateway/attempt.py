"""One attempt at one replica: asks, relays, and says how it ended. Here alone upstream errors get an HTTP status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from router.decision import Decision
from serving.gateway import errors
from serving.gateway.account import Account, AttemptEntry
from serving.gateway.answer_headers import STREAM, Header, answer_headers
from serving.gateway.errors import OVERLOADED_STATUSES, ApiError
from serving.gateway.exchange import Exchange
from serving.gateway.fleet import Tier
from serving.gateway.holdback import ESCALATED, EscalatedError, Trial
from serving.gateway.protocols.base import Forward
from serving.gateway.protocols.choices import parsed_object, raise_error
from serving.gateway.relay import Relay
from serving.ledger.records import Outcome
from serving.telemetry.metrics import Metrics
from serving.upstream.client import UpstreamClient
from serving.upstream.errors import (
    ConnectError,
    ConnectionLost,
    FirstTokenTimeout,
    IdleTimeout,
    NoReplica,
    Overloaded,
    TotalTimeout,
    UpstreamError,
)
from serving.upstream.headers import FORWARDED
from serving.upstream.pool import Lease
from serving.upstream.response import UpstreamResponse

MAX_ANSWER_BYTES: Final = 256 * 2**20
MAX_ERROR_BYTES: Final = 64 * 2**10
LINGER_S: Final = 0.5
"""How long the upstream has, once it said that a stream is complete, to end it so that its connection can be kept."""


class AttemptFailedError(Exception):
    """An attempt ended before its answer was committed. `error` is what the client is told unless another succeeds."""

    def __init__(
        self,
        error: ApiError,
        *,
        is_retryable: bool,
        replica: str,
        was_dispatched: bool = True,
        is_connection_lost: bool = False,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.is_retryable = is_retryable
        self.replica = replica
        self.was_dispatched = was_dispatched
        """Whether the replica may have worked on the request."""
        self.is_connection_lost = is_connection_lost
        """Whether the replica may be gone."""


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

    async def run(
        self,
        decision: Decision,
        tier: Tier,
        forward: Forward,
        without: frozenset[str],
        trial: Trial | None = None,
    ) -> None:
        """Send the request to a replica of `tier` and relay its answer.

        Args:
            without: URLs of replicas that have failed this request already.
            trial: what the answer has to pass before any of it is sent; None for nothing.

        Raises:
            AttemptFailedError: nothing has been sent to the client yet.
            EscalatedError: it did not pass, and nothing has been sent either.
            ApiError: the stream has begun and broke off; the client has not been told.
        """
        entry = AttemptEntry(tier=tier, arm=decision.arm, reader=forward.reader, started=self._clock())
        self._account.reader = forward.reader
        with self._account.attempt(entry, self._clock), self._classified(entry):
            async with tier.pool.lease(exclude=without) as lease:
                entry.leased = self._clock()
                self._metrics.tier(tier.name).queue_seconds.observe(entry.leased - entry.started)
                entry.replica = lease.replica.url
                try:
                    await self._ask(entry, lease, forward, decision, trial)
                except ApiError as error:  # what the reader says of the answer
                    entry.outcome = _outcome_of(error.status)
                    raise
                finally:
                    lease.outcome = entry.outcome

    async def _ask(
        self, entry: AttemptEntry, lease: Lease, forward: Forward, decision: Decision, trial: Trial | None
    ) -> None:
        client_headers = self._exchange.headers
        headers = {name: client_headers[name] for name in FORWARDED if name in client_headers}
        headers["x-request-id"] = self._account.request_id
        deadlines = entry.tier.deadlines
        if not self._account.is_streaming:
            deadlines = deadlines.for_whole_answer()
        async with self._client.post(
            lease.replica.endpoint, forward.path, forward.body, headers, deadlines, self._account.arrived
        ) as response:
            entry.first_byte = self._clock()
            entry.status = response.status
            if response.status >= 400:
                await self._refuse(entry, lease, response)
            elif self._account.is_streaming:
                await self._relay(entry, response, decision, trial)
            else:
                await self._answer(entry, response, decision, trial)
        entry.outcome = Outcome.SUCCESS

    async def _refuse(self, entry: AttemptEntry, lease: Lease, response: UpstreamResponse) -> NoReturn:
        """An answer whose status says all that matters, however much of its body comes."""
        body = await _beginning(response, MAX_ERROR_BYTES)
        status, tier = response.status, entry.tier.name
        entry.error = f"upstream status {status}"
        entry.outcome = _outcome_of(status)
        if entry.outcome is Outcome.OVERLOADED:
            lease.retry_after_s = response.retry_after_s
            error = errors.overloaded_upstream(status, tier, response.retry_after_s)
        elif entry.outcome is Outcome.FAILURE:
            error = errors.failed_upstream(status, tier)
        else:
            error = errors.rejected_by_upstream(status, body, tier)
        is_retryable = entry.outcome is not Outcome.REJECTED
        raise AttemptFailedError(error, is_retryable=is_retryable, replica=entry.replica)

    async def _answer(
        self, entry: AttemptEntry, response: UpstreamResponse, decision: Decision, trial: Trial | None
    ) -> None:
        if trial is not None:
            await _expect_stream(response)
            await trial.wait(response.chunks(), entry.reader)
        body = entry.reader.whole(await response.read(MAX_ANSWER_BYTES))
        usage = entry.reader.usage
        cost = entry.tier.cost(
            num_input_tokens=usage.prompt_tokens or 0, num_output_tokens=usage.completion_tokens or 0
        )
        entry.is_committed = True
        await self._exchange.respond(200, body, self._answer_headers(decision, cost))
        entry.first_token = self._clock()

    async def _relay(
        self, entry: AttemptEntry, response: UpstreamResponse, decision: Decision, trial: Trial | None
    ) -> None:
        await _expect_stream(response)
        reader = entry.reader
        observe_gap = self._metrics.token_gap(entry.tier.name)
        headers = [*STREAM, *self._answer_headers(decision, None)]
        relay = Relay(entry, self._exchange, headers, self._clock, observe_gap)
        if trial is not None:
            await relay.pass_on(await trial.wait(response.chunks(), reader))
        if not reader.is_complete:
            await relay.pass_all(response, reader)
        await relay.end(reader.finish())
        entry.outcome = Outcome.SUCCESS
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(LINGER_S):
                await _skip(response)

    def _answer_headers(self, decision: Decision, cost: float | None) -> list[Header]:
        account = self._account
        return answer_headers(account.request_id, decision, cost, spent=account.cost)

    @contextmanager
    def _classified(self, entry: AttemptEntry) -> Iterator[None]:
        """Give every way out of an attempt its outcome, and every error its HTTP status."""
        try:
            yield
        except AttemptFailedError:
            raise
        except EscalatedError:
            entry.outcome = Outcome.CANCELLED
            entry.error = ESCALATED
            raise
        except asyncio.CancelledError:
            if entry.outcome is None:
                entry.outcome = Outcome.CANCELLED
                entry.error = "cancelled"
            raise
        except UpstreamError as error:
            entry.outcome = error.outcome
            entry.error = str(error)
            told = _api_error(error, entry.tier.name)
            if entry.is_committed:
                raise told from error
            raise AttemptFailedError(
                told,
                is_retryable=error.is_retryable or isinstance(error, NoReplica),
                replica=entry.replica,
                was_dispatched=error.was_dispatched,
                is_connection_lost=isinstance(error, ConnectError | ConnectionLost),
            ) from error
        except ApiError as error:
            entry.error = error.message
            if entry.outcome is Outcome.FAILURE:
                error.should_retry = False
            if entry.is_committed:
                raise
            is_retryable = entry.outcome is not Outcome.REJECTED
            raise AttemptFailedError(error, is_retryable=is_retryable, replica=entry.replica) from error


async def _expect_stream(response: UpstreamResponse) -> None:
    """An error told as a document, or a server that ignores `stream`; a relay would pass it on as an event.

    Raises:
        ApiError: it is one of these.
    """
    if response.content_type not in ("text/event-stream", ""):
        raise_error(parsed_object(await response.read(MAX_ERROR_BYTES)))
        raise ApiError(502, "The engine's answer is no stream.", code="upstream_protocol_error")


async def _beginning(response: UpstreamResponse, max_bytes: int) -> bytes:
    """As much of a body as comes, up to `max_bytes`."""
    body = b""
    with suppress(UpstreamError):
        async for chunk in response.chunks():
            body += chunk
            if len(body) >= max_bytes:
                break
    return body[:max_bytes]


async def _skip(response: UpstreamResponse) -> None:
    async for _ in response.chunks():
        pass


def _outcome_of(status: int) -> Outcome:
    """What an error's status says of the attempt."""
    if status in OVERLOADED_STATUSES:
        return Outcome.OVERLOADED
    return Outcome.FAILURE if errors.is_failure(status) else Outcome.REJECTED


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
        return ApiError(503, f"The {tier} tier is down.", code="tier_unavailable")
    status = 504 if isinstance(error, FirstTokenTimeout | IdleTimeout | TotalTimeout) else 502
    return ApiError(status, f"The {tier} tier failed: {error}", code=error.code, should_retry=False)
