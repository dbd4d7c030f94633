"""A request's story, from its arrival to its line in the ledger. It reads from top to bottom in `Service._answer`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from router.decision import Decision
from router.request import RequestView
from serving.gateway.account import Account
from serving.gateway.answer_headers import answer_headers
from serving.gateway.attempt import Attempt, AttemptFailedError
from serving.gateway.body import parse_object
from serving.gateway.chooser import Chooser, Failures
from serving.gateway.errors import ApiError, internal, unauthorized
from serving.gateway.exchange import ClientDisconnectedError, Exchange
from serving.gateway.fleet import Fleet
from serving.gateway.holdback import EscalatedError, Holdback
from serving.gateway.keys import KeyStore, presented_key
from serving.gateway.levers import read_levers, request_id_of
from serving.gateway.protocols.base import ProtocolAdapter
from serving.gateway.shadow import Shadows
from serving.gateway.steering import Steering
from serving.ledger.store import Ledger
from serving.settings import Settings
from serving.telemetry.log import LogWriter
from serving.telemetry.metrics import Metrics
from serving.upstream.client import UpstreamClient
from serving.upstream.retry import RetryBudget

_log = logging.getLogger(__name__)


class Service:
    """Answers requests. Holds no state of a request beyond its own call."""

    def __init__(
        self,
        *,
        settings: Settings,
        fleet: Fleet,
        steering: Steering,
        shadows: Shadows,
        holdback: Holdback,
        client: UpstreamClient,
        keys: KeyStore | None,
        ledger: Ledger,
        metrics: Metrics,
        log: LogWriter,
        retry_budget: RetryBudget,
        monotonic: Callable[[], float],
        wall_clock: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._steering = steering
        self._shadows = shadows
        self._chooser = Chooser(
            fleet, settings=settings.gateway, retry_budget=retry_budget, monotonic=monotonic
        )
        self._holdback = holdback
        self._client = client
        self._keys = keys
        self._ledger = ledger
        self._metrics = metrics
        self._log = log
        self._retry_budget = retry_budget
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._new_id = new_id
        self._running: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    @property
    def num_running(self) -> int:
        """Requests that have arrived and not ended."""
        return len(self._running)

    def end_all(self) -> None:
        """End what still runs: streams with an error event, the rest with 503, as whatever comes from now on."""
        self._is_ending = True
        for task in self._running:
            task.cancel()

    async def handle(self, adapter: ProtocolAdapter, exchange: Exchange) -> None:
        """Answer one request, and account for it however it ends."""
        account = Account(
            request_id=request_id_of(exchange.headers, self._new_id()),
            endpoint=adapter.endpoint,
            created_at=self._wall_clock(),
            arrived=self._monotonic(),
        )
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self._metrics.request_started(adapter.endpoint)
        try:
            await self._answer(adapter, exchange, account)
            account.status = 200
        except ClientDisconnectedError as departure:
            account.status, account.error_code = 499, departure.code
        except ApiError as error:
            await self._tell(error, exchange, account)
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            task.uncancel()
            await self._tell(_shutting_down(), exchange, account)
        except Exception:  # noqa: BLE001  the outermost boundary: whatever is wrong with us, the client gets an answer
            _log.exception("request %s failed inside the gateway", account.request_id)
            await self._tell(internal(), exchange, account)
        finally:
            self._running.discard(task)
            self._close(account)

    async def _answer(self, adapter: ProtocolAdapter, exchange: Exchange, account: Account) -> None:
        if self._is_ending:
            raise _shutting_down()
        account.key = self.authenticate(exchange.headers)
        levers = read_levers(exchange.headers)
        raw = await exchange.read_body(self._settings.gateway.max_body_bytes)
        fields = parse_object(raw)
        view = adapter.view(fields, levers)
        account.view, account.model = view, view.model
        account.is_streaming = adapter.is_streaming(fields)
        view = self._chooser.resolve(view)
        account.drawn = self._shadows.draw(adapter, exchange, raw, fields, view)
        async with exchange.cancelled_on_disconnect():
            await self._attempt_until_answered(adapter, exchange, account, raw, fields, view)

    def authenticate(self, headers: Mapping[str, str]) -> str | None:
        """The name of the API key in these headers; None where no key is asked for.

        Raises:
            ApiError: 401.
        """
        if self._keys is None:
            return None
        presented = presented_key(headers)
        if not presented:
            raise unauthorized("No API key: send `Authorization: Bearer <key>`.")
        record = self._keys.verify(presented)
        if record is None or record.is_admin:
            raise unauthorized("This API key is not known here, or has been revoked.")
        return record.name

    async def _attempt_until_answered(
        self,
        adapter: ProtocolAdapter,
        exchange: Exchange,
        account: Account,
        raw: bytes,
        fields: Mapping[str, Any],
        view: RequestView,
    ) -> None:
        """Decide and attempt; and again without what has failed, while nothing is sent and the budget allows.

        An attempt that is held back may end in another, of a stronger arm: that is no failure, and happens once.
        """
        attempt = Attempt(exchange, account, self._client, self._metrics, self._monotonic)
        account.course = course = self._steering.course(account.request_id, view, account.key)
        failures = Failures()
        self._retry_budget.note_request(account.arrived)
        escalated: Decision | None = None
        while True:
            decision = escalated or await self._chooser.decide(course, failures)
            account.decision = decision
            course.follow(decision)
            self._metrics.decided(decision.arm, decision.reason)
            hold = None if account.has_escalated else self._holdback.plan(view, decision)
            target = self._chooser.target(view, decision, wants_first_tokens=hold is not None)
            forward = adapter.forward(raw, fields, target)
            trial = self._holdback.trial(hold, decision, forward.tap, is_streaming=account.is_streaming)
            tier = self._fleet[decision.tier]
            try:
                return await attempt.run(decision, tier, forward, failures.replicas, trial)
            except EscalatedError as end:
                escalated = end.decision
            except AttemptFailedError as failure:
                failures, escalated = failures.after(failure), None

    async def _tell(self, error: ApiError, exchange: Exchange, account: Account) -> None:
        """Send an error: as the answer, or as the last event of a stream that has begun."""
        if exchange.has_ended:
            account.status = 200  # it came after the last byte, and is no news to the client
            return None
        account.status, account.error_code = error.status, error.code or error.kind
        if not exchange.is_committed:
            headers = answer_headers(account.request_id, account.decision, account.cost)
            return await exchange.respond(error.status, error.body, [*headers, *error.headers])
        if account.is_streaming and account.decision is not None:
            self._metrics.stream_failed(account.decision.tier, account.error_code)
            assert account.reader is not None, "a stream that has begun has a reader"
            await exchange.conclude(account.reader.error_event(error))
        return None

    def _close(self, account: Account) -> None:
        ended = self._monotonic()
        if account.course is not None:
            account.realised = account.course.end(account.attempts, engine_seconds=account.engine_seconds)
        record = account.record(ended, store_prompt=self._settings.ledger.store_prompts)
        for attempt in account.attempts:
            self._metrics.attempt_ended(attempt, is_streaming=account.is_streaming)
            self._ledger.record_attempt(attempt)
        self._ledger.record_decision(record)
        self._metrics.request_ended(
            account.endpoint,
            tier=record.tier,
            arm=record.arm,
            code=account.status,
            seconds=ended - account.arrived,
        )
        self._log.request(record, account.attempts)
        self._shadows.answered(account)


def _shutting_down() -> ApiError:
    return ApiError(503, "The gateway is shutting down.", code="shutting_down")
