"""What was decided, attempted and spent over a span of time, summed up in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, Connection, and_, case, func, select

from serving.ledger.query import attempts_used, ttft_s
from serving.ledger.records import Outcome
from serving.ledger.tables import attempts, decisions

_GROUPED_BY: Final = ("tier", "arm", "reason")
_AMOUNTS: Final = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "num_tiers"),
    *(f"num_{outcome.value}" for outcome in Outcome),
)

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The requests that one tier answered by one arm for one reason; or all of them, where the three are None."""

    tier: str | None
    arm: str | None
    reason: str | None
    num_requests: int
    share: float
    """Of all requests of the span, in [0, 1]."""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost: float
    total_p50_s: float
    """Nearest rank, as every percentile here: a value that was measured."""
    total_p95_s: float
    ttft_p50_s: float | None
    """None where no stream reached its first token."""
    ttft_p95_s: float | None
    outcomes: dict[str, int]
    """Attempts by `Outcome`."""
    num_retries: int
    """Attempts after a request's first."""
    num_escalated: int
    """Requests that more than one tier worked on."""
    num_errors: int
    """Requests that ended with a status of 400 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All requests since a moment, together and in groups."""

    since: float | None
    """Unix time; None for the ledger's whole span."""
    total: Group | None
    """None where there was no request."""
    groups: tuple[Group, ...]
    """By tier, arm and reason, the largest first."""


def summarize(connection: Connection, since: float | None = None) -> Summary:
    """Sum up the requests that arrived at or after `since` (Unix time)."""
    requests = _requests(since)
    total = next(iter(_groups(connection, requests, (), num_all=None)), None)
    if total is None:
        return Summary(since=since, total=None, groups=())
    groups = _groups(connection, requests, _GROUPED_BY, num_all=total.num_requests)
    groups.sort(key=lambda group: -group.num_requests)
    return Summary(since=since, total=total, groups=tuple(groups))


def _requests(since: float | None) -> CTE:
    """Each request of the span with what its attempts used.

    Where a client sent one id twice, the first of its requests gets the attempts of both: the sums stay right.
    """
    nth = func.row_number().over(partition_by=decisions.c.request_id, order_by=decisions.c.id).label("nth")
    span = select(decisions, nth)
    if since is not None:
        span = span.where(decisions.c.created_at >= since)
    decided = span.subquery()
    # An attempt is recorded when it ends, after its request's arrival.
    used = attempts_used(attempts.c.recorded_at >= (since or 0.0))
    is_its_own = and_(decided.c.request_id == used.c.request_id, decided.c.nth == 1)
    return (
        select(
            *(decided.c[name] for name in (*_GROUPED_BY, "status", "num_attempts", "total_s", "cost")),
            *(func.coalesce(used.c[name], 0).label(name) for name in _AMOUNTS),
            ttft_s(decided, used),
        )
        .outerjoin_from(decided, used, is_its_own)
        .cte("requests")
    )


def _groups(
    connection: Connection, requests: CTE, names: Sequence[str], *, num_all: int | None
) -> list[Group]:
    """The requests grouped by the columns `names`; where there are none, all in one group."""
    of = requests.c
    query = select(
        *(of[name] for name in names),
        func.count().label("num_requests"),
        func.sum(of.cost).label("cost"),
        func.sum(case((of.num_attempts > 1, of.num_attempts - 1), else_=0)).label("num_retries"),
        func.sum(case((of.num_tiers > 1, 1), else_=0)).label("num_escalated"),
        func.sum(case((of.status >= 400, 1), else_=0)).label("num_errors"),
        *(func.sum(of[name]).label(name) for name in _AMOUNTS),
    ).group_by(*(of[name] for name in names))
    rows = [dict(row) for row in connection.execute(query).mappings() if row["num_requests"]]
    total_s = _percentiles(connection, requests, names, of.total_s)
    ttft = _percentiles(connection, requests, names, of.ttft_s)
    groups = []
    for row in rows:
        key = tuple(row[name] for name in names)
        groups.append(_group(row, num_all=num_all, total_s=total_s[key], ttft=ttft.get(key, (None, None))))
    return groups


def _group(
    row: dict[str, Any],
    *,
    num_all: int | None,
    total_s: tuple[float, float],
    ttft: tuple[float | None, float | None],
) -> Group:
    num_requests = int(row["num_requests"])
    return Group(
        tier=row.get("tier"),
        arm=row.get("arm"),
        reason=row.get("reason"),
        num_requests=num_requests,
        share=num_requests / (num_all or num_requests),
        prompt_tokens=int(row["prompt_tokens"]),  # PostgreSQL's sums are decimals
        completion_tokens=int(row["completion_tokens"]),
        cached_tokens=int(row["cached_tokens"]),
        cost=row["cost"],
        total_p50_s=total_s[0],
        total_p95_s=total_s[1],
        ttft_p50_s=ttft[0],
        ttft_p95_s=ttft[1],
        outcomes={outcome.value: int(row[f"num_{outcome.value}"]) for outcome in Outcome},
        num_retries=int(row["num_retries"]),
        num_escalated=int(row["num_escalated"]),
        num_errors=int(row["num_errors"]),
    )


def _percentiles(
    connection: Connection, requests: CTE, names: Sequence[str], value: ColumnElement[Any]
) -> dict[_Key, tuple[float, float]]:
    """p50 and p95 of `value` in each group that has any."""
    keys = [requests.c[name] for name in names]
    ranked = (
        select(
            *keys,
            value.label("value"),
            func.row_number().over(partition_by=keys, order_by=value).label("rank"),
            func.count().over(partition_by=keys).label("num_values"),
        )
        .where(value.is_not(None))
        .subquery()
    )
    of = ranked.c
    # The nearest rank is ⌈n·p/100⌉: the first rank at which rank·100 reaches n·p.
    p50, p95 = (func.min(case((of.rank * 100 >= of.num_values * percent, of.value))) for percent in (50, 95))
    group = [of[name] for name in names]
    rows = connection.execute(select(p50, p95, *group).group_by(*group))
    return {tuple(row[2:]): (row[0], row[1]) for row in rows if row[0] is not None}
