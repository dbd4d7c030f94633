"""Hold-back: the first tokens of a doubtful answer wait until it is settled whether the client is to see them.

At the commit point, which is reached once, either everything is passed on and the answer goes its way, or the attempt
ends in `EscalatedError` and the next arm begins. What is weighed stands in `router.escalation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from router.decision import Decision, Reason
from router.escalation import Band, EscalationModel, Hold, plan_hold
from router.request import RequestView
from serving.gateway.fleet import Fleet
from serving.gateway.protocols.base import AnswerReader
from serving.gateway.protocols.token_tap import TokenTap
from serving.telemetry.escalation_series import End, EscalationSeries

ESCALATED: Final = "escalated"
"""What the ledger says of an attempt that was given up."""


class EscalatedError(Exception):
    """The attempt was given up before a byte of it was sent; `decision` is what to do instead."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(f"escalated to {decision.arm}")
        self.decision = decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt on trial: what was decided, and what it has to show."""

    hold: Hold
    decision: Decision
    tap: TokenTap
    max_s: float | None
    """The longest that a token may wait; None where nothing is sent before the answer is whole."""
    is_open: Callable[[], bool]
    """Whether the next arm could begin at once."""
    series: EscalationSeries
    clock: Callable[[], float]

    async def wait(self, chunks: AsyncIterator[bytes], reader: AnswerReader) -> bytes:
        """The client's bytes up to the commit point; from there on the caller reads `chunks` by itself.

        Raises:
            EscalatedError: the client is not to see them.
            ApiError: from the reader.
            UpstreamError: from `chunks`.
        """
        with self._counted(reader) as course:
            try:
                async with asyncio.timeout(None) as patience:
                    async for chunk in chunks:
                        course.held += reader.feed(chunk)
                        if self._is_settled(reader):
                            break
                        if patience.when() is None and reader.num_tokens and self.max_s is not None:
                            patience.reschedule(asyncio.get_running_loop().time() + self.max_s)
            except TimeoutError:
                course.end = End.TIMED_OUT
                return bytes(course.held)
            if self._is_settled(reader) and self.is_open() and self.hold.is_worth_it(self.tap.tokens):
                course.end = End.ESCALATED
                raise EscalatedError(self._next_decision())
            course.end = End.FLUSHED
            return bytes(course.held)

    def _is_settled(self, reader: AnswerReader) -> bool:
        """Whether as much has come as the model looks at, or all there is."""
        return reader.is_complete or len(self.tap.tokens) >= self.hold.pair.num_tokens

    @contextmanager
    def _counted(self, reader: AnswerReader) -> Iterator[_Course]:
        course, begun = _Course(), self.clock()
        try:
            yield course
        finally:
            tier, seconds = self.hold.first.tier, self.clock() - begun
            is_wasted = course.end in (End.ESCALATED, End.ABANDONED)
            self.series.ended(
                tier, course.end, seconds=seconds, num_wasted=reader.num_tokens if is_wasted else 0
            )

    def _next_decision(self) -> Decision:
        """What was decided, but for the arm and what is forecast of it, by which it will be graded.

        The chance is still that of the way which led here, and what was weighed stays, so that it can be replayed.
        """
        p = self.hold.revised(self.tap.tokens)[1]
        following = replace(self.hold.next, success_probability=p, raw_probability=None)
        candidates = tuple(following if c.arm == following.arm else c for c in self.decision.candidates)
        return replace(
            self.decision,
            arm=following.arm,
            tier=following.tier,
            reason=Reason.ESCALATION,
            success_probability=p,
            expected=following.expected,
            candidates=candidates,
            position=[c.arm for c in candidates if c.excluded is None].index(following.arm),
        )


@dataclass(slots=True)
class _Course:
    held: bytearray = field(default_factory=bytearray)
    end: End = End.ABANDONED


class Holdback:
    """Decides which attempts are on trial.

    Args:
        model: what first tokens say.
        band: of the forecasts that are doubtful.
        max_s: the longest that a token may wait.
        fleet: says whether the next arm could begin at once.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        model: EscalationModel,
        band: Band,
        *,
        max_s: float,
        fleet: Fleet,
        series: EscalationSeries,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._band = band
        self._max_s = max_s
        self._fleet = fleet
        self._series = series
        self._clock = clock

    def plan(self, view: RequestView, decision: Decision) -> Hold | None:
        """Whether this attempt is to be put on trial, so that its tokens have to be asked about."""
        hold = plan_hold(view, decision, self._model, self._band)
        if hold is None or not self._is_open(hold.next.tier):
            return None
        engine = self._fleet[hold.first.tier].engine
        return hold if engine is not None and engine.logprobs else None

    def trial(
        self, hold: Hold | None, decision: Decision, tap: TokenTap | None, *, is_streaming: bool
    ) -> Trial | None:
        """The trial of an attempt whose tokens `tap` reads; None where none was planned, or nothing can be read."""
        if hold is None or tap is None:
            return None
        return Trial(
            hold=hold,
            decision=decision,
            tap=tap,
            max_s=self._max_s if is_streaming else None,
            is_open=lambda: self._is_open(hold.next.tier),
            series=self._series,
            clock=self._clock,
        )

    def _is_open(self, tier: str) -> bool:
        """Whether a tier takes requests and nobody waits for it: an escalation must not queue behind others."""
        return self._fleet[tier].is_available() and not self._fleet[tier].pool.num_waiting
