"""A ledger's requests as the simulator takes them: what was offered then, and what came of the arm that was chosen.

What the other arms would have taken is not known. They are given their expectation times the factor by which the arm
that was chosen missed its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, and_, func, select

from router.decision import Exclusion
from router.offer import ArmOffer, Offer, Spend
from router.workload import Request
from serving.ledger.tables import attempts, decisions

ROWS_AT_ONCE: Final = 1000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What turns a row into a request."""

    quality_floor: float
    """The least probability of success to accept, for rows of an earlier version, which did not keep their own."""
    began: float
    """Unix time of the first decision."""

    def request(self, row: Row) -> Request:
        """The request of one of `rows`."""
        members = orjson.loads(row["candidates"])
        open_to = [member for member in members if member["excluded"] is None]
        names = tuple(member["arm"] for member in open_to)
        arms = tuple(_arm(member) for member in open_to)
        floor = row["quality_floor"]
        return Request(
            at=row["created_at"] - self.began,
            offer=Offer(
                arms=arms,
                quality_floor=self.quality_floor if floor is None else floor,
                is_curtailed=any(member["excluded"] == Exclusion.UNAVAILABLE for member in members),
            ),
            names=names,
            realised=_realised(arms, names.index(row["arm"]), row),
            succeeds=None,
        )


def time_span(connection: Connection, since: float | None) -> tuple[float, float] | None:
    """Unix time of the first and the last decision from `since` on; None where there is none."""
    query = select(func.min(decisions.c.created_at), func.max(decisions.c.created_at)).where(
        _is_decided(since)
    )
    first, last = connection.execute(query).one()
    return None if first is None else (first, last)


def rows(connection: Connection, since: float | None) -> Iterator[Row]:
    """The decisions from `since` on in order of time, each with the seconds of its attempts."""
    used = (
        select(attempts.c.request_id, func.sum(attempts.c.ended_s - attempts.c.started_s).label("seconds"))
        .group_by(attempts.c.request_id)
        .subquery()
    )
    columns = ("created_at", "arm", "candidates", "cost", "quality_floor")
    query = (
        select(*(decisions.c[name] for name in columns), used.c.seconds)
        .outerjoin_from(decisions, used, decisions.c.request_id == used.c.request_id)
        .where(_is_decided(since))
        .order_by(decisions.c.created_at, decisions.c.id)
    )
    for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query).mappings():
        yield dict(row)


def _is_decided(since: float | None) -> ColumnElement[bool]:
    is_decided = decisions.c.arm.is_not(None)
    return is_decided if since is None else and_(is_decided, decisions.c.created_at >= since)


def _arm(member: Mapping[str, Any]) -> ArmOffer:
    return ArmOffer(
        success_probability=member["weighed"],
        expected=Spend(cost=member["cost"], engine_seconds=member["seconds"], full_share=member["full"]),
    )


def _realised(arms: Sequence[ArmOffer], chosen: int, row: Row) -> tuple[Spend, ...]:
    """What each arm takes: the chosen one what it took, the others their expectation, missed by as much."""
    expected = arms[chosen].expected
    dearer = _factor(row["cost"] or 0.0, expected.cost)
    longer = _factor(row["seconds"] or 0.0, expected.engine_seconds)
    return tuple(
        Spend(
            cost=arm.expected.cost * dearer,
            engine_seconds=arm.expected.engine_seconds * longer,
            full_share=arm.expected.full_share,
        )
        for arm in arms
    )


def _factor(realised: float, expected: float) -> float:
    return realised / expected if expected else 1.0
