"""A request's story, from its arrival to its line in the ledger. It reads from top to bottom in `Service._answer`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from router.decision import Decision, Exclusion, NoArmError
from router.filter import AUTO, UnknownModelError, resolve_model
from router.policy import RoutingPolicy
from router.request import RequestView
from serving.gateway.account import Account
from serving.gateway.attempt import Attempt, AttemptFailedError, request_headers
from serving.gateway.body import parse_object
from serving.gateway.errors import ApiError, unauthorized
from serving.gateway.exchange import ClientDisconnectedError, Exchange
from serving.gateway.fleet import Fleet
from serving.gateway.keys import KeyStore
from serving.gateway.levers import read_levers, request_id_of
from serving.gateway.protocols.base import ProtocolAdapter, Target
from serving.ledger.store import Ledger
from serving.settings import Settings
from serving.telemetry.log import LogWriter
from serving.telemetry.metrics import Metrics
from serving.upstream.client import UpstreamClient
from serving.upstream.retry import RetryBudget

MAX_ATTEMPTS: Final = 3

_log = logging.getLogger(__name__)


class Service:
    """Answers requests. Holds no state of a request beyond its own call."""

    def __init__(
        self,
        *,
        settings: Settings,
        fleet: Fleet,
        policy: RoutingPolicy,
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
        self._policy = policy
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
        """End what still runs: streams with an error event, the rest with 503."""
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
        except ClientDisconnectedError:
            account.status, account.error_code = 499, "client_disconnected"
        except ApiError as error:
            await self._tell(error, exchange, account)
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            task.uncancel()
            await self._tell(_SHUTTING_DOWN, exchange, account)
        except Exception:  # noqa: BLE001  the outermost boundary: whatever is wrong with us, the client gets an answer
            _log.exception("request %s failed inside the gateway", account.request_id)
            await self._tell(_INTERNAL, exchange, account)
        finally:
            self._running.discard(task)
            self._close(account)

    async def _answer(self, adapter: ProtocolAdapter, exchange: Exchange, account: Account) -> None:
        account.key = self.authenticate(exchange.headers)
        levers = read_levers(exchange.headers)
        raw = await exchange.read_body(self._settings.gateway.max_body_bytes)
        fields = parse_object(raw)
        view = adapter.view(fields, levers)
        account.view, account.model = view, view.model
        account.is_streaming = adapter.is_streaming(fields)
        view = self._resolved(view)
        async with exchange.cancelled_on_disconnect():
            await self._attempt_until_answered(adapter, exchange, account, raw, fields, view)

    def authenticate(self, headers: Mapping[str, str]) -> str | None:
        """The name of the API key in these headers; None where no key is asked for.

        Raises:
            ApiError: 401.
        """
        if self._keys is None:
            return None
        scheme, _, presented = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not presented:
            raise unauthorized("No API key: send `Authorization: Bearer <key>`.")
        record = self._keys.verify(presented.strip())
        if record is None:
            raise unauthorized("This API key is not known here, or has been revoked.")
        return record.name

    def _resolved(self, view: RequestView) -> RequestView:
        arms = self._fleet.arms()
        if view.wanted_arm is not None and all(view.wanted_arm != arm.name for arm in arms):
            names = ", ".join(arm.name for arm in arms)
            raise ApiError(
                400,
                f"There is no arm {view.wanted_arm[:80]!r}; the arms are {names}.",
                param="x-tierwise-arm",
            )
        if view.model == AUTO:
            return view
        try:
            return replace(view, model=resolve_model(view.model, arms, self._fleet.model_ids))
        except UnknownModelError as error:
            raise ApiError(404, f"{error}.", param="model", code="model_not_found") from None

    async def _attempt_until_answered(
        self,
        adapter: ProtocolAdapter,
        exchange: Exchange,
        account: Account,
        raw: bytes,
        fields: Mapping[str, Any],
        view: RequestView,
    ) -> None:
        """Decide and attempt; and again without what has failed, while nothing is sent and the budget allows."""
        attempt = Attempt(exchange, account, self._client, self._metrics, self._monotonic)
        failed: frozenset[str] = frozenset()
        last_error: ApiError | None = None
        self._retry_budget.note_request(account.arrived)
        while True:
            account.decision = decision = await self._decide(view, failed, last_error)
            self._metrics.decided(decision.arm, decision.reason)
            tier = self._fleet[decision.tier]
            forward = adapter.forward(raw, fields, self._target(view, decision))
            try:
                return await attempt.run(decision, tier, forward, failed)
            except AttemptFailedError as failure:
                if not failure.is_retryable or not self._may_retry(account):
                    raise failure.error from failure
                failed |= {failure.replica}
                last_error = failure.error

    def _target(self, view: RequestView, decision: Decision) -> Target:
        engine = self._fleet[decision.tier].engine
        assert engine is not None, "a tier that was never up is not available"
        return Target(
            arm=next(arm for arm in self._fleet.arms() if arm.name == decision.arm),
            engine=engine,
            service_tier=self._service_tier(view, decision),
            expose_vendor_fields=self._settings.gateway.expose_vendor_fields,
        )

    def _may_retry(self, account: Account) -> bool:
        return len(account.attempts) < MAX_ATTEMPTS and self._retry_budget.try_spend(self._monotonic())

    async def _decide(
        self, view: RequestView, failed: frozenset[str], last_error: ApiError | None
    ) -> Decision:
        """The policy's decision among the arms that have not failed this request.

        Where every arm that could answer is down, wait a while if one of them is being started again.
        """
        give_up = self._monotonic() + self._settings.gateway.queue_timeout_s
        while True:
            try:
                return self._policy.decide(view, self._fleet.arms(failed))
            except NoArmError as error:
                if Exclusion.UNAVAILABLE not in error.exclusions.values():
                    raise _refused(error) from None
            left = give_up - self._monotonic()
            if not self._fleet.is_restarting(failed):
                return self._decide_in_panic(view, failed, last_error)
            if left <= 0:
                raise last_error or _UNAVAILABLE
            await self._fleet.wait_for_change(left)

    def _decide_in_panic(
        self, view: RequestView, failed: frozenset[str], last_error: ApiError | None
    ) -> Decision:
        try:
            return self._policy.decide(view, self._fleet.arms(failed, even_if_sick=True))
        except NoArmError:
            raise last_error or _UNAVAILABLE from None

    def _service_tier(self, view: RequestView, decision: Decision) -> str | None:
        """OpenAI's name for the tier that answers, where the client asked for one."""
        if view.service_tier is None:
            return None
        strengths = {arm.tier: arm.strength for arm in self._fleet.arms()}
        strength = strengths[decision.tier]
        if len(strengths) > 1 and strength == min(strengths.values()):
            return "flex"
        return "priority" if len(strengths) > 1 and strength == max(strengths.values()) else "default"

    async def _tell(self, error: ApiError, exchange: Exchange, account: Account) -> None:
        """Send an error: as the answer, or as the last event of a stream that has begun."""
        account.status, account.error_code = error.status, error.code or error.kind
        if not exchange.is_committed:
            headers = [*request_headers(account.request_id), *error.headers]
            return await exchange.respond(error.status, error.body, headers)
        if account.is_streaming and account.decision is not None:
            self._metrics.stream_failed(account.decision.tier, account.error_code)
            assert account.reader is not None, "a stream that has begun has a reader"
            await exchange.send(account.reader.error_event(error), is_last=True)
        return None

    def _close(self, account: Account) -> None:
        ended = self._monotonic()
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


_SHUTTING_DOWN: Final = ApiError(
    503, "The gateway is shutting down.", code="shutting_down", retry_after_s=1.0
)
_INTERNAL: Final = ApiError(
    500, "The gateway failed. The request id leads to its log.", code="internal_error"
)
_UNAVAILABLE: Final = ApiError(
    503, "No tier that can answer this request is up.", code="tier_unavailable", retry_after_s=2.0
)


def _refused(error: NoArmError) -> ApiError:
    """400: no arm can do what the request asks; the message says what each one lacks."""
    is_overflow = Exclusion.CONTEXT in error.exclusions.values()
    code = "context_length_exceeded" if is_overflow else "unsupported_parameter"
    return ApiError(400, str(error), param=error.param, code=code)
