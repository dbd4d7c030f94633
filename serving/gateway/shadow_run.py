"""One shadow run: the request at another arm, and where somebody is to judge, its answer beside the client's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import orjson

from router.arms import Arm
from serving.gateway import shadow_judge
from serving.gateway.account import Account
from serving.gateway.protocols.base import Forward, Target
from serving.gateway.protocols.chat import ChatAdapter
from serving.gateway.shadow_agreement import agrees
from serving.gateway.shadow_cap import Reservation
from serving.gateway.shadow_place import NoPlaceError
from serving.gateway.shadow_plan import Served
from serving.gateway.shadow_request import Drawn
from serving.ledger.records import AttemptRecord, Outcome, Purpose
from serving.telemetry.shadow_series import RunEnd

_CHAT: Final = ChatAdapter()


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Run:
    """What one run is about, and its books. It has no `repr`, since it holds what the client said."""

    drawn: Drawn
    request_id: str
    """Of the client's request."""
    key: str | None
    served: Served
    shadow: Arm
    """Who is asked now."""
    graded: str
    """Of the two, the weaker arm; the other one's answer is the reference."""
    judge: Arm | None
    propensity: float
    """The chance, once the client had been answered so, of a run that grades this arm."""
    reservation: Reservation
    account: Account
    """Of the run."""
    purposes: list[Purpose] = field(default_factory=list)
    """Of its attempts."""
    tier: str | None = None
    """Where it is being answered now."""
    task: asyncio.Task[None] | None = None
    gives_way: bool = False
    end: RunEnd = RunEnd.SHUTDOWN
    """How it ended, once it has."""

    @property
    def attempts(self) -> list[AttemptRecord]:
        """What was asked, as the ledger is to have it."""
        return [
            replace(attempt, purpose=purpose, parent=self.request_id)
            for attempt, purpose in zip(self.account.attempts, self.purposes, strict=True)
        ]

    @property
    def cost(self) -> float:
        """What counts against the cap: what is known, and where an engine kept it to itself, what was reserved."""
        known = self.account.cost
        is_known = not any(map(_is_cost_unknown, self.account.attempts))
        return known if is_known else max(known, self.reservation.cost)


class Asking(Protocol):
    """Puts a request of a run to an arm."""

    async def __call__(self, run: Run, arm: Arm, forward: Forward, purpose: Purpose) -> str | None:
        """The answer's text; None where it has none.

        Raises:
            NoPlaceError: the arm's tier has no place for it now.
            AttemptFailedError: it failed.
        """
        ...


async def compare(run: Run, target: Callable[[Arm], Target], ask: Asking, *, by_agreement: bool) -> RunEnd:
    """Ask the other arm, and grade the weaker of the two.

    Args:
        target: what an arm's engine is like; raises `NoPlaceError` where it has never been up.
        ask: puts a request to an arm.
        by_agreement: whether a rule compares where no arm does.

    Raises:
        NoPlaceError, AttemptFailedError: as `ask`, of the other arm.
    """
    forward = run.drawn.forward(target(run.shadow))
    text = await ask(run, run.shadow, forward, Purpose.SHADOW)
    if text is None:
        return RunEnd.INCOMPARABLE
    is_shadow_graded = run.graded == run.shadow.name
    answer, reference = (text, run.served.text) if is_shadow_graded else (run.served.text, text)
    if run.judge is not None:
        return await _judged(run, run.judge, target, ask, answer, reference)
    if not by_agreement:
        return RunEnd.UNJUDGED
    return _end(agrees(answer, reference))


async def _judged(
    run: Run, judge: Arm, target: Callable[[Arm], Target], ask: Asking, answer: str, reference: str
) -> RunEnd:
    """The end that the judge's two verdicts make."""
    view = run.drawn.view
    if not shadow_judge.fits(view, answer, reference, judge):
        return RunEnd.UNJUDGED
    verdicts = []
    for first, second in ((answer, reference), (reference, answer)):
        fields = shadow_judge.question(view, first, second, judge)
        try:
            forward = _CHAT.forward(orjson.dumps(fields), fields, target(judge))
            reply = await ask(run, judge, forward, Purpose.JUDGE)
        except NoPlaceError:
            return RunEnd.UNJUDGED
        verdict = shadow_judge.verdict_of(reply or "")
        if verdict is None:
            return RunEnd.UNPARSABLE
        verdicts.append(verdict)
    grade = shadow_judge.grade(*verdicts)
    return _end(None if grade is None else bool(grade))


def _end(suffices: bool | None) -> RunEnd:
    if suffices is None:
        return RunEnd.INCOMPARABLE
    return RunEnd.SUFFICED if suffices else RunEnd.FELL_SHORT


def _is_cost_unknown(attempt: AttemptRecord) -> bool:
    """Whether an engine may have worked on it and never said how much."""
    was_cut = attempt.outcome in (Outcome.CANCELLED, Outcome.FAILURE)
    return was_cut and bool(attempt.replica) and attempt.usage.prompt_tokens is None
