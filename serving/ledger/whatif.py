"""What another target or another λ would have come to, by the ledger's own requests: the answer that is shown and sent.

The arithmetic, and what it takes for granted, stand in `router.counterfactual`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Connection

from router.budget_config import SPREAD
from router.counterfactual import Comparison, Hindsight, WhatIf
from router.offer import Metric
from router.support import MIN_OUTCOMES, MIN_SUPPORTING, Lack
from serving.ledger.decided import DecidedSpan, decided_span

MAX_POLICIES: Final = 50

Answer = dict[str, Any]


class NothingDecidedError(Exception):
    """The ledger holds nothing that could be asked; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked. At least one of `targets` and `prices` is not empty."""

    targets: Sequence[float] = ()
    """In the metric's unit, each above 0."""
    prices: Sequence[float] = ()
    """λ, each at least 0."""
    metric: Metric | None = None
    """None for that of the last decision."""
    since: float | None = None
    """Unix time; None for the ledger's whole span."""
    exploration_share: float | None = None
    """In [0, 1); None for that of the last decision."""

    def __post_init__(self) -> None:
        num_policies = len(self.targets) + len(self.prices)
        if not 1 <= num_policies <= MAX_POLICIES:
            raise ValueError(f"name between 1 and {MAX_POLICIES} targets and prices")
        if not all(0 < target < float("inf") for target in self.targets):
            raise ValueError("a target is above 0")
        if not all(0 <= price < float("inf") for price in self.prices):
            raise ValueError("a price of compute is at least 0")
        if self.metric is Metric.FULL_SHARE and any(target > 1 for target in self.targets):
            raise ValueError("a target of full_share is a share of requests, at most 1")


def answer(connection: Connection, question: Question, *, max_decisions: int) -> Answer:
    """What would have been, as JSON.

    Args:
        connection: to a ledger of `recorded.SCHEMA`.
        question: what is asked.
        max_decisions: how many are looked at; of more, a sample.

    Raises:
        NothingDecidedError: there is no decision to look at.
    """
    span = decided_span(connection, question.since, max_decisions=max_decisions)
    if span is None:
        raise NothingDecidedError("The ledger holds no decision of that time.")
    if not span.log:
        raise NothingDecidedError(
            "The decisions of that time were written by an earlier version, which did not keep their chances."
        )
    metric = question.metric or span.metric
    assert metric is not None, "a log that is not empty has a last decision"
    share = span.exploration_share if question.exploration_share is None else question.exploration_share
    unit = span.requests_per_hour if metric.is_per_hour else 1.0
    seen = Hindsight(span.log, metric)
    answers = [
        {"target": target, "price_of_compute": None}
        | _plain(seen.at_target(target / unit, spread=SPREAD, exploration_share=share), unit)
        for target in question.targets
    ] + [
        {"target": None, "price_of_compute": price}
        | _plain(seen.at_price(price, spread=span.spread, exploration_share=share), unit)
        for price in question.prices
    ]
    return {
        "object": "what_if",
        "metric": metric.value,
        "exploration_share": share,
        **_about(span),
        "answers": answers,
    }


def _about(span: DecidedSpan) -> Answer:
    return {
        "began": span.began,
        "ended": span.ended,
        "requests_per_hour": span.requests_per_hour,
        "num_decided": span.num_decided,
        "num_looked_at": len(span.log),
        "num_unusable": span.num_unusable,
        "is_sample": span.is_sample,
    }


def _plain(told: WhatIf, unit: float) -> Answer:
    """The answer for one policy; what is taken in the metric's own unit."""
    return {
        "moved_share": told.moved_share,
        "unsupported_share": told.unsupported_share,
        "expected": told.expected * unit,
        "shares": {"now": told.logged_shares, "then": told.shares},
        "success": _compared(told, told.success),
        "cost": _compared(told, told.cost),
        "taken": _compared(told, told.taken, unit=unit),
    }


def _compared(told: WhatIf, one: Comparison, *, unit: float = 1.0) -> Answer:
    sides: Mapping[str, Any] = {"now": one.logged, "then": one.estimate, "change": one.change}
    return {
        **{name: None if side is None else asdict(side.scaled(unit)) for name, side in sides.items()},
        "observed": None if one.observed is None else one.observed * unit,
        "num_outcomes": one.num_outcomes,
        "num_supporting": one.num_supporting,
        "lack": one.lack,
        "remedy": _remedy(told, one),
    }


def _remedy(told: WhatIf, one: Comparison) -> str | None:
    """What would mend a lack, in words."""
    if one.lack is None:
        return None
    if one.lack is Lack.TOO_FEW_OUTCOMES:
        return (
            f"of {told.num_decisions} requests {one.num_outcomes} have an outcome, and {MIN_OUTCOMES} are "
            "the least: send grades to POST /v1/feedback"
        )
    if one.lack is Lack.NO_SUPPORT:
        return (
            f"{told.unsupported_share:.1%} of requests would go to arms that were never tried for such: set "
            "[router] exploration_share, say to 0.05, and let time pass"
        )
    return (
        f"the move is judged by {one.num_supporting:.0f} outcomes, effectively, and {MIN_SUPPORTING:.0f} are the "
        f"least: it takes {_more(one)} more time, grades, or exploration ([router] exploration_share)"
    )


def _more(one: Comparison) -> str:
    """How much more, where anything is known of it."""
    return f"{MIN_SUPPORTING / one.num_supporting:.1f} times" if one.num_supporting >= 1 else "a good deal"
