"""A ledger's decisions as what-if takes them: what was offered, with which chances, what it came to, and its grade.

Read in order of time, in bounded memory: of more than asked for, a sample that is spread evenly over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, case, exists, func, select

from router.counterfactual import LoggedDecision
from router.decision import Reason
from router.offer import Metric, Spend
from serving.ledger.recorded import COLUMNS, recorded_decision
from serving.ledger.records import SHADOW
from serving.ledger.tables import decisions, feedback

ROWS_AT_ONCE: Final = 1000
MIN_CHANCE: Final = 1e-6
"""A smaller one is the edge of a band, met by rounding: its decision tells nothing."""
BY_CLIENT: Final = frozenset({Reason.CLIENT_MODEL, Reason.CLIENT_ARM, Reason.CLIENT_SERVICE_TIER})
"""The reasons that leave no room for a lot, though they may leave several arms."""

# A permutation of the row ids that looks random: multiplication modulo a prime.
_MULTIPLIER: Final = 48_271
_MODULUS: Final = 65_537


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedSpan:
    """The decisions of a span of time."""

    log: Sequence[LoggedDecision]
    num_decided: int
    """Requests for which an arm was chosen."""
    num_unusable: int
    """Of those looked at, the ones without the chances of their arms: written by an earlier version."""
    is_sample: bool
    began: float
    """Unix time of the first and the last one."""
    ended: float
    metric: Metric | None
    """That of the last one in `log`; None where it is empty."""
    spread: float
    """Of the last one's band."""
    exploration_share: float
    """That of the last one that a lot could have decided."""

    @property
    def requests_per_hour(self) -> float:
        """Over the whole span; a single moment counts for a second."""
        return self.num_decided / max(self.ended - self.began, 1.0) * 3600


def decided_span(connection: Connection, since: float | None, *, max_decisions: int) -> DecidedSpan | None:
    """The decisions from `since` (Unix time) on; None where there is none.

    Args:
        connection: to a ledger of schema 3.
        since: None for the ledger's whole span.
        max_decisions: how many to keep; of more, about so many are drawn.
    """
    span = select(func.count(), func.min(decisions.c.created_at), func.max(decisions.c.created_at)).where(
        is_decided(since)
    )
    num_decided, began, ended = connection.execute(span).one()
    if not num_decided:
        return None
    parts = _MODULUS if num_decided <= max_decisions else _MODULUS * max_decisions // num_decided
    log: list[LoggedDecision] = []
    num_unusable, last, last_free = 0, None, None
    for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(_query(since, parts)).mappings():
        decision = _decision(dict(row))
        if decision is None:
            num_unusable += 1
            continue
        log.append(decision)
        last = row
        last_free = last_free if decision.is_forced else row
    return DecidedSpan(
        log=log,
        num_decided=num_decided,
        num_unusable=num_unusable,
        is_sample=parts < _MODULUS,
        began=began,
        ended=ended,
        metric=None if last is None else Metric(last["metric"]),
        spread=0.0 if last is None else last["spread"],
        exploration_share=0.0 if last_free is None else last_free["exploration_share"],
    )


def is_decided(since: float | None) -> ColumnElement[bool]:
    """The rows of requests for which an arm was chosen, from `since` (Unix time) on."""
    has_arm = decisions.c.arm.is_not(None)
    return has_arm if since is None else and_(has_arm, decisions.c.created_at >= since)


def _query(since: float | None, parts: int) -> Select[Any]:
    """The decisions of the span, so many of `_MODULUS` parts of them, each with its grade."""
    of = decisions.c
    other = decisions.alias()
    # Of an id that was sent twice nobody knows which request was graded.
    is_repeated = exists().where(other.c.request_id == of.request_id, other.c.id != of.id)
    last_grade = (
        select(feedback.c.score)
        .where(feedback.c.request_id == of.request_id, feedback.c.arm == of.arm, feedback.c.source != SHADOW)
        .order_by(feedback.c.id.desc())
        .limit(1)
        .correlate(decisions)
        .scalar_subquery()
    )
    query = (
        select(
            *(of[name] for name in (*COLUMNS, "cost", "engine_seconds", "full_share")),
            case((is_repeated, None), else_=last_grade).label("score"),
        )
        .where(is_decided(since))
        .order_by(of.created_at, of.id)
    )
    return query if parts >= _MODULUS else query.where(of.id * _MULTIPLIER % _MODULUS < parts)


def _decision(row: Mapping[str, Any]) -> LoggedDecision | None:
    """None where the row does not say with which chances it was decided."""
    recorded = recorded_decision(row)
    if recorded is None:
        return None
    # What came of an escalation is what comes of the arm that was chosen first.
    is_escalated = row["reason"] == Reason.ESCALATION
    chosen = recorded.replayed().position if is_escalated else recorded.arms.index(row["arm"])
    if recorded.chances[chosen] < MIN_CHANCE:
        return None
    return LoggedDecision(
        offer=recorded.offer,
        arms=recorded.arms,
        chosen=chosen,
        propensities=recorded.chances,
        is_forced=row["reason"] in BY_CLIENT,
        realised=_realised(row),
        success=row["score"],
    )


def _realised(row: Mapping[str, Any]) -> Spend | None:
    if row["full_share"] is None:
        return None
    return Spend(cost=row["cost"], engine_seconds=row["engine_seconds"], full_share=row["full_share"])
