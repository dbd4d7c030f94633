"""Shadow runs: a share of answered requests is asked again of an arm that was not chosen, and the answers are compared.

    lot on arrival ─▶ answered ─▶ arm by lot, place free, cost within the cap ─▶ asked ─▶ compared ─▶ graded

The client has its answer before anything of this begins, pays nothing for it, and is not made to wait: a run takes a
place only where one is free, and gives it up to whoever comes. Requests and answers are held in memory for as long as
that takes, and written nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from router.arms import Arm
from router.request import RequestView
from serving.gateway.account import Account
from serving.gateway.attempt import Attempt, AttemptFailedError
from serving.gateway.errors import ApiError
from serving.gateway.exchange import Exchange
from serving.gateway.feedback import Feedback
from serving.gateway.fleet import Fleet
from serving.gateway.protocols.base import Forward, ProtocolAdapter, Target
from serving.gateway.shadow_answer import Kept, Overheard
from serving.gateway.shadow_books import ShadowBooks
from serving.gateway.shadow_cap import HourlyCap
from serving.gateway.shadow_place import NoPlaceError, Places
from serving.gateway.shadow_plan import expected_cost, propensity, served, weaker_of
from serving.gateway.shadow_request import Drawn, is_suitable, other_arms
from serving.gateway.shadow_run import Run, compare
from serving.ledger.records import Purpose
from serving.ledger.store import Ledger
from serving.settings import Settings
from serving.telemetry.metrics import Metrics
from serving.telemetry.shadow_series import RunEnd, ShadowSeries, Skip
from serving.upstream.client import UpstreamClient

_log = logging.getLogger(__name__)


class Shadows:
    """All shadow runs of a gateway. Belongs to one event loop.

    Args:
        settings: the tree; of it above all `[shadow]`.
        feedback: takes the grades.
        monotonic: seconds; the cap's hours too are measured on it, so that no clock that is set makes money.
        wall_clock: Unix time.
        new_id: makes a run's own request id.
        rng: draws the requests and the arms.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        fleet: Fleet,
        client: UpstreamClient,
        ledger: Ledger,
        feedback: Feedback,
        series: ShadowSeries,
        monotonic: Callable[[], float],
        wall_clock: Callable[[], float],
        new_id: Callable[[], str],
        rng: random.Random,
    ) -> None:
        self._settings = settings.shadow
        self._fleet = fleet
        self._client = client
        self._books = ShadowBooks(ledger, feedback, series)
        self._series = series
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._new_id = new_id
        self._rng = rng
        self._cap = HourlyCap(self._settings.max_cost_per_hour or 0.0)
        self._places = Places(
            fleet,
            only_when_idle=self._settings.only_when_idle,
            # Without a line, a client that finds no place is refused at once: the last one is never ours.
            num_spared=0 if settings.gateway.max_queue else 1,
        )
        self._runs: set[Run] = set()
        # Attempts measure how long they queued. Ours never do, and would make the clients' queues look shorter.
        self._unread = Metrics(CollectorRegistry(), tiers=(), arms=(), version="")
        self._is_closed = False

    @property
    def num_running(self) -> int:
        """Runs under way."""
        return len(self._runs)

    def draw(
        self,
        adapter: ProtocolAdapter,
        exchange: Exchange,
        raw: bytes,
        fields: Mapping[str, Any],
        view: RequestView,
    ) -> Drawn | None:
        """Draw whether a request, which has just been understood, is to have a run; if so its answer is overheard."""
        if not self._settings.share or self._rng.random() >= self._settings.share:
            return None
        if len(raw) > self._settings.max_body_bytes or not is_suitable(view):
            self._series.skipped(Skip.UNSUITABLE)
            return None
        overheard = Overheard()
        exchange.overhear = overheard.hear
        return Drawn(adapter, raw, fields, view, overheard)

    def answered(self, account: Account) -> None:
        """A request has ended. If the lot fell on it, its run begins; this neither waits nor raises."""
        if account.drawn is None or self._is_closed:
            return
        run = self._planned(account.drawn, account)
        if isinstance(run, Skip):
            self._series.skipped(run)
            return
        self._runs.add(run)
        run.task = asyncio.create_task(self._follow(run), name=f"shadow {run.account.request_id}")
        # A callback, since a task that is cancelled before its first step runs nothing of its own.
        run.task.add_done_callback(lambda _: self._close_books(run))

    def pools_changed(self) -> None:
        """A request came to a tier or left it: runs that stand in a client's way end."""
        for run in self._runs:
            if run.tier is not None and not run.gives_way and self._places.is_in_the_way(run.tier):
                assert run.task is not None, "what is being answered has begun"
                run.gives_way = True
                run.task.cancel()

    async def close(self) -> None:
        """End all runs, and begin no more."""
        self._is_closed = True
        tasks = [run.task for run in self._runs if run.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _planned(self, drawn: Drawn, account: Account) -> Run | Skip:
        """Draw the arm and set the cost aside."""
        answer, arms = served(drawn, account), self._fleet.arms()
        if answer is None:
            return Skip.UNANSWERED
        chosen = answer.decision.arm
        others = other_arms(drawn.view, arms, chosen)
        if not others:
            return Skip.NO_ARM
        shadow = self._rng.choice(others)
        if len(self._runs) >= self._settings.max_in_flight:
            return Skip.IN_FLIGHT
        if not self._places.is_free(shadow.tier):
            return Skip.BUSY
        judge, now = self._judge, self._monotonic()
        reservation = self._cap.reserve(expected_cost(drawn.view, answer, shadow, judge), now)
        if reservation is None:
            return Skip.COST
        graded = weaker_of(chosen, shadow.name, arms)
        return Run(
            drawn=drawn,
            request_id=account.request_id,
            key=account.key,
            served=answer,
            shadow=shadow,
            graded=graded,
            judge=judge,
            propensity=propensity(self._settings.share, graded, chosen, others, arms),
            reservation=reservation,
            account=Account(
                request_id=self._new_id(),
                endpoint=account.endpoint,
                created_at=self._wall_clock(),
                arrived=now,
                view=drawn.view,
            ),
        )

    @property
    def _judge(self) -> Arm | None:
        name = self._settings.judging_arm
        return None if name is None else self._fleet.arms_by_name[name]

    async def _follow(self, run: Run) -> None:
        """See a run to its end, whatever that is. Nothing of what was said goes into the log."""
        try:
            run.end = await compare(run, self._target, self._ask, by_agreement=self._settings.is_by_agreement)
        except (AttemptFailedError, ApiError):
            run.end = RunEnd.FAILED
        except NoPlaceError:
            run.end = RunEnd.GAVE_WAY
        except asyncio.CancelledError:
            run.end = RunEnd.GAVE_WAY if run.gives_way else RunEnd.SHUTDOWN
        except Exception as error:  # noqa: BLE001  the outermost boundary: a mistake of ours costs no more than this run
            run.end = RunEnd.FAILED
            _log.error("a shadow run failed inside the gateway: %s", type(error).__name__)

    async def _ask(self, run: Run, arm: Arm, forward: Forward, purpose: Purpose) -> str | None:
        exchange = Kept()
        attempt = Attempt(exchange, run.account, self._client, self._unread, self._monotonic)
        decision = replace(run.served.decision, arm=arm.name, tier=arm.tier)
        with self._places.taken(arm.tier):
            run.purposes.append(purpose)
            run.tier = arm.tier
            try:
                await attempt.run(decision, self._fleet[arm.tier], forward, frozenset())
            finally:
                run.tier = None
        return exchange.text

    def _target(self, arm: Arm) -> Target:
        engine = self._fleet[arm.tier].engine
        if engine is None:
            raise NoPlaceError
        return Target(arm=arm, engine=engine, service_tier=None)

    def _close_books(self, run: Run) -> None:
        self._runs.discard(run)
        self._cap.settle(run.reservation, run.cost, self._monotonic())
        self._books.close(run)
