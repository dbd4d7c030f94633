"""The router's side of a request: forecast once, decided at the price in force and with what its past says, then told
what it took."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from router.arms import Arm
from router.decision import Decision
from router.difficulty import Assessment, Forecast
from router.offer import Spend
from router.policy import RoutingPolicy
from router.pricing import Draws
from router.request import RequestView
from serving.gateway.budget_keeper import BudgetKeeper
from serving.gateway.evidence import EvidenceKeeper
from serving.gateway.feedback import Feedback
from serving.gateway.session import Sessions
from serving.ledger.records import AttemptRecord, Outcome

MAX_INLINE_CHARS: Final = 4096
"""A longer request is forecast in a thread: the event loop answers others meanwhile."""
MAX_THREADS: Final = 2
"""Forecasts in threads at once."""


class Steering:
    """What all requests of a gateway share when they are decided.

    Args:
        policy: decides.
        budget: says what compute costs, and hears what was taken.
        sessions: remembers what requests have to do with each other.
        feedback: remembers what was decided until it is graded.
        evidence: bends forecasts to recent outcomes, and says what is to be doubted.
        monotonic: seconds.
        rng: draws each request's λ from the band, and the explored arm.
    """

    def __init__(
        self,
        policy: RoutingPolicy,
        budget: BudgetKeeper,
        sessions: Sessions,
        feedback: Feedback,
        evidence: EvidenceKeeper,
        *,
        monotonic: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self.policy = policy
        self.budget = budget
        self.sessions = sessions
        self.feedback = feedback
        self.evidence = evidence
        self.monotonic = monotonic
        self._rng = rng
        self._threads = asyncio.Semaphore(MAX_THREADS)

    async def assess(self, view: RequestView, arms: Sequence[Arm]) -> Assessment:
        """What the model makes of a request."""
        if view.num_chars <= MAX_INLINE_CHARS:
            return self.policy.model.assess(view, arms)
        async with self._threads:
            return await asyncio.to_thread(self.policy.model.assess, view, arms)

    def course(self, request_id: str, view: RequestView, key: str | None) -> Course:
        """The course of one request, which is asked for by this API key."""
        draws = Draws(price=self._rng.random(), exploration=self._rng.random())
        return Course(self, request_id, view, key, draws)


class Course:
    """One request on its way: every attempt is decided with the same forecasts, draws, recollection and doubt."""

    def __init__(
        self, steering: Steering, request_id: str, view: RequestView, key: str | None, draws: Draws
    ) -> None:
        self.view = view
        self._request_id = request_id
        self._steering = steering
        self._key = key
        self._draws = draws
        self._recollection = steering.sessions.recall(view, key, steering.monotonic())
        self._doubt = steering.evidence.doubt()
        self._assessment: Assessment | None = None
        self._forecasts: Mapping[str, Forecast] = {}
        self._first: Decision | None = None

    async def assess(self, arms: Sequence[Arm]) -> None:
        """Forecast every arm, once a request; to be awaited before the first decision."""
        if self._assessment is None:
            self._assessment = await self._steering.assess(self.view, arms)
            self._forecasts = self._steering.evidence.calibrated(self._assessment.forecasts)

    def decide(self, arms: Sequence[Arm]) -> Decision:
        """The arm for the next attempt.

        Raises:
            NoArmError: none of `arms` can answer.
        """
        steering = self._steering
        return steering.policy.decide(
            self.view,
            arms,
            steering.budget.pricing,
            draws=self._draws,
            recollection=self._recollection,
            doubt=self._doubt,
            forecasts=self._forecasts,
        )

    def follow(self, decision: Decision) -> None:
        """An attempt is made as decided. The first one is what the budget and the session know the request by."""
        steering, now = self._steering, self._steering.monotonic()
        if self._first is None:
            self._first = decision
            steering.budget.decided(decision)
            if (
                self._assessment is not None
                and not self.view.is_tool_loop
                and self.view.endpoint != "embeddings"
            ):
                steering.evidence.decided(self._assessment, decision)
            steering.sessions.remember_turn(self.view, self._key, decision, now)
        steering.sessions.remember_arm(self.view, self._key, decision.arm, now)
        steering.feedback.decided(self._request_id, self._key, decision)

    def end(self, attempts: Sequence[AttemptRecord], *, engine_seconds: float) -> Spend | None:
        """The request ended; what it took, or None where no attempt was made.

        Args:
            attempts: all there were.
            engine_seconds: what engines have worked on them.
        """
        if self._first is None:
            return None
        full = {c.tier for c in self._first.candidates if c.expected.full_share}
        realised = Spend(
            cost=sum([attempt.cost for attempt in attempts]),
            engine_seconds=engine_seconds,
            full_share=float(any(a.tier in full and _was_worked_on(a) for a in attempts)),
        )
        is_plain = len(attempts) == 1 and attempts[0].outcome is Outcome.SUCCESS
        arm = attempts[0].arm if is_plain else None
        self._steering.budget.ended(arm, expected=self._first.expected, realised=realised)
        return realised


def _was_worked_on(attempt: AttemptRecord) -> bool:
    """Whether an engine answered, or would have had the client stayed."""
    return bool(attempt.replica) and attempt.outcome in (Outcome.SUCCESS, Outcome.CANCELLED)
