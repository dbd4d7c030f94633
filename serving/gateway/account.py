"""The books of one request: opened at its arrival, closed once however it ends, an entry for each attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson

from router.decision import Decision
from router.offer import Spend
from router.request import RequestView
from serving.gateway.fleet import Tier
from serving.gateway.holdback import ESCALATED
from serving.gateway.protocols.base import AnswerReader
from serving.gateway.shadow_request import Drawn
from serving.gateway.steering import Course
from serving.ledger.records import AttemptRecord, DecisionRecord, Outcome

MAX_MODEL_CHARS = 200


@dataclass(slots=True, kw_only=True)
class AttemptEntry:
    """What happens in one attempt, while it happens. Times are on the gateway's monotonic clock."""

    tier: Tier
    arm: str
    reader: AnswerReader
    started: float
    leased: float | None = None
    """When a replica was free for it."""
    replica: str = ""
    first_byte: float | None = None
    first_token: float | None = None
    is_committed: bool = False
    status: int | None = None
    outcome: Outcome | None = None
    """None until it is known, and for ever where a mistake of ours ended the attempt."""
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class Account:
    """One request's books."""

    request_id: str
    endpoint: str
    created_at: float
    """Unix time."""
    arrived: float
    """The gateway's monotonic clock."""
    key: str | None = None
    view: RequestView | None = None
    model: str = ""
    is_streaming: bool = False
    decision: Decision | None = None
    reader: AnswerReader | None = None
    """Of the latest attempt: it knows how this protocol says that a stream ends with an error."""
    attempts: list[AttemptRecord] = field(default_factory=list)
    engine_seconds: float = 0.0
    """For how long replicas were held, over all attempts."""
    realised: Spend | None = None
    """What all attempts took; None until the request has ended, or where it came to none."""
    course: Course | None = None
    """None until the request is understood."""
    drawn: Drawn | None = None
    """For a shadow run; None for most."""
    status: int = 500
    error_code: str | None = None

    @contextmanager
    def attempt(self, entry: AttemptEntry, now: Callable[[], float]) -> Iterator[AttemptEntry]:
        """Enter an attempt into the books when the block ends, however it ends."""
        try:
            yield entry
        finally:
            ended = now()
            self.attempts.append(self._record(entry, ended))
            self.engine_seconds += 0.0 if entry.leased is None else ended - entry.leased

    @property
    def has_escalated(self) -> bool:
        """Whether an attempt was given up for a stronger arm's."""
        return any(attempt.error == ESCALATED for attempt in self.attempts)

    @property
    def cost(self) -> float:
        """Money for all attempts."""
        return sum(attempt.cost for attempt in self.attempts)

    def _record(self, entry: AttemptEntry, ended: float) -> AttemptRecord:
        return AttemptRecord(
            request_id=self.request_id,
            attempt=len(self.attempts),
            arm=entry.arm,
            tier=entry.tier.name,
            replica=entry.replica,
            started_s=entry.started - self.arrived,
            first_byte_s=self._since(entry.first_byte),
            first_token_s=self._since(entry.first_token),
            ended_s=ended - self.arrived,
            is_committed=entry.is_committed,
            status=entry.status,
            outcome=entry.outcome or Outcome.FAILURE,
            error=entry.error if entry.outcome else "the gateway failed",
            usage=entry.reader.usage,
            cost=self._cost(entry),
        )

    def _since(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.arrived

    def _cost(self, entry: AttemptEntry) -> float:
        """By usage; of a stream that ended before its usage came, by what came of it; else nothing."""
        usage = entry.reader.usage
        if usage.prompt_tokens is None and not entry.reader.num_tokens:
            return 0.0
        estimate = self.view.num_input_tokens if self.view else 0.0
        prompt = usage.prompt_tokens if usage.prompt_tokens is not None else estimate
        completion = (
            usage.completion_tokens if usage.completion_tokens is not None else entry.reader.num_tokens
        )
        return entry.tier.cost(num_input_tokens=prompt, num_output_tokens=completion)

    def record(self, now: float, *, store_prompt: bool) -> DecisionRecord:
        """The request's line in the ledger."""
        view, decision = self.view, self.decision
        return DecisionRecord(
            request_id=self.request_id,
            created_at=self.created_at,
            endpoint=self.endpoint,
            key=self.key,
            session=view.session if view else None,
            model=self.model[:MAX_MODEL_CHARS],
            is_streaming=self.is_streaming,
            arm=decision.arm if decision else None,
            tier=decision.tier if decision else None,
            reason=decision.reason.value if decision else None,
            success_probability=decision.success_probability if decision else None,
            expected_cost=decision.expected.cost if decision else None,
            metric=decision.metric.value if decision else None,
            price_of_compute=decision.price_of_compute if decision else None,
            propensity=decision.propensity if decision else None,
            quality_floor=decision.offer.quality_floor if decision else None,
            is_curtailed=decision.offer.is_curtailed if decision else None,
            middle_price=decision.terms.price_of_compute if decision else None,
            spread=decision.terms.spread if decision else None,
            exploration_share=decision.terms.exploration_share if decision else None,
            lot=decision.lot if decision else None,
            policy_version=decision.policy_version if decision else None,
            artifact_version=decision.artifact_version if decision else None,
            candidates=_candidates(decision) if decision else "[]",
            num_input_chars=view.num_chars if view else 0,
            status=self.status,
            error_code=self.error_code,
            num_attempts=len(self.attempts),
            total_s=now - self.arrived,
            cost=self.cost,
            engine_seconds=self.engine_seconds,
            full_share=self.realised.full_share if self.realised else None,
            prompt=view.task if view and store_prompt else None,
        )


def _candidates(decision: Decision) -> str:
    """Every arm that was considered; one that was left out has no chance."""
    chances = iter(decision.chances)
    return orjson.dumps(
        [
            {
                "arm": candidate.arm,
                "p": candidate.success_probability,
                "raw": candidate.model_probability,
                "weighed": candidate.weighed_probability,
                "cost": candidate.expected.cost,
                "seconds": candidate.expected.engine_seconds,
                "full": candidate.expected.full_share,
                "excluded": candidate.excluded,
                "chance": next(chances) if candidate.excluded is None else None,
            }
            for candidate in decision.candidates
        ]
    ).decode()
