"""What was decided, attempted and spent over a span of time.

The database joins requests with their attempts; the sums are made here, in one pass. Percentiles in SQL need a sort
for each, and take several times as long.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, fsum
from operator import add
from typing import Any, Final

from sqlalchemy import Connection, Select, and_, func, select

from serving.ledger.query import attempts_used, ttft_s
from serving.ledger.records import Outcome
from serving.ledger.tables import attempts, decisions

_AMOUNTS: Final = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "num_tiers"),
    *(f"num_{outcome.value}" for outcome in Outcome),
)
_ROWS_A_FETCH: Final = 5_000


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
    tallies: defaultdict[tuple[str | None, str | None, str | None], _Tally] = defaultdict(_Tally)
    rows = connection.execution_options(yield_per=_ROWS_A_FETCH).execute(_requests(since))
    for tier, arm, reason, *amounts in rows:
        tallies[tier, arm, reason].add(*amounts)
    if not tallies:
        return Summary(since=since, total=None, groups=())
    all_requests = _merged(tallies.values())
    num_all = len(all_requests.total_s)
    groups = [
        tally.group(tier=tier, arm=arm, reason=reason, num_all=num_all)
        for (tier, arm, reason), tally in tallies.items()
    ]
    groups.sort(key=lambda group: -group.num_requests)
    total = all_requests.group(tier=None, arm=None, reason=None, num_all=num_all)
    return Summary(since=since, total=total, groups=tuple(groups))


def _requests(since: float | None) -> Select[Any]:
    """Each request of the span with what its attempts used: group, then what `_Tally.add` takes.

    Where a client sent one id twice, the first of its requests gets the attempts of both: the sums stay right.
    """
    of = decisions.c
    nth = func.row_number().over(partition_by=of.request_id, order_by=of.id).label("nth")
    span = select(
        *(of.tier, of.arm, of.reason, of.status, of.num_attempts, of.total_s, of.cost),
        *(of.request_id, of.is_streaming, nth),
    )
    if since is not None:
        span = span.where(of.created_at >= since)
    decided = span.subquery()
    # An attempt is recorded when it ends, after its request's arrival.
    used = attempts_used(attempts.c.recorded_at >= (since or 0.0))
    is_its_own = and_(decided.c.request_id == used.c.request_id, decided.c.nth == 1)
    mine = decided.c
    return select(
        *(mine.tier, mine.arm, mine.reason, mine.status, mine.num_attempts, mine.total_s, mine.cost),
        ttft_s(decided, used),
        *(func.coalesce(used.c[name], 0) for name in _AMOUNTS),
    ).outerjoin_from(decided, used, is_its_own)


@dataclass(slots=True)
class _Tally:
    """The requests of one group so far."""

    total_s: array[float] = field(default_factory=lambda: array("d"))
    ttft_s: array[float] = field(default_factory=lambda: array("d"))
    costs: array[float] = field(default_factory=lambda: array("d"))
    num_errors: int = 0
    num_retries: int = 0
    num_escalated: int = 0
    tokens: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Prompt, completion, cached."""
    outcomes: list[int] = field(default_factory=lambda: [0] * len(Outcome))

    def add(
        self,
        status: int,
        num_attempts: int,
        total_s: float,
        cost: float,
        ttft_s: float | None,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int,
        num_tiers: int,
        *outcomes: int,
    ) -> None:
        self.total_s.append(total_s)
        self.costs.append(cost)
        if ttft_s is not None:
            self.ttft_s.append(ttft_s)
        self.num_errors += status >= 400
        self.num_retries += max(0, num_attempts - 1)
        self.num_escalated += num_tiers > 1
        self.tokens = [*map(add, self.tokens, (prompt_tokens, completion_tokens, cached_tokens))]
        self.outcomes = [*map(add, self.outcomes, outcomes)]

    def group(self, *, tier: str | None, arm: str | None, reason: str | None, num_all: int) -> Group:
        prompt_tokens, completion_tokens, cached_tokens = map(int, self.tokens)  # PostgreSQL sums decimals
        total_s, ttft_s = sorted(self.total_s), sorted(self.ttft_s)
        return Group(
            tier=tier,
            arm=arm,
            reason=reason,
            num_requests=len(total_s),
            share=len(total_s) / num_all,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cached_tokens=cached_tokens,
            cost=fsum(self.costs),
            total_p50_s=_percentile(total_s, 50),
            total_p95_s=_percentile(total_s, 95),
            ttft_p50_s=_percentile(ttft_s, 50) if ttft_s else None,
            ttft_p95_s=_percentile(ttft_s, 95) if ttft_s else None,
            outcomes={
                outcome.value: int(count) for outcome, count in zip(Outcome, self.outcomes, strict=True)
            },
            num_retries=self.num_retries,
            num_escalated=self.num_escalated,
            num_errors=self.num_errors,
        )


def _merged(tallies: Iterable[_Tally]) -> _Tally:
    merged = _Tally()
    for tally in tallies:
        merged.total_s.extend(tally.total_s)
        merged.ttft_s.extend(tally.ttft_s)
        merged.costs.extend(tally.costs)
        merged.num_errors += tally.num_errors
        merged.num_retries += tally.num_retries
        merged.num_escalated += tally.num_escalated
        merged.tokens = [*map(add, merged.tokens, tally.tokens)]
        merged.outcomes = [*map(add, merged.outcomes, tally.outcomes)]
    return merged


def _percentile(ordered: list[float], percent: int) -> float:
    """Nearest rank: the ⌈n·p/100⌉-th of n values."""
    return ordered[ceil(len(ordered) * percent / 100) - 1]
