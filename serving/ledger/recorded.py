"""A row of `decisions` as the router's own words: what was offered, on which terms, and with which chances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from router.choice import Choice
from router.offer import ArmOffer, Metric, Offer, Spend
from router.propensity import PolicyTerms
from router.replay import replayed

SCHEMA: Final = 3
"""The first whose rows hold it all."""
COLUMNS: Final = (
    *("arm", "reason", "candidates", "metric", "price_of_compute", "quality_floor", "is_curtailed"),
    *("middle_price", "spread", "exploration_share", "lot"),
)
"""What a row has to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """What the ledger says of a decision."""

    offer: Offer
    arms: tuple[str, ...]
    """The names of the offer's arms."""
    chances: tuple[float, ...]
    """Of each."""
    terms: PolicyTerms
    price_of_compute: float
    """λ as the request drew it."""
    lot: float
    """The draw that explores."""

    def replayed(self) -> Choice:
        """The choice, made again."""
        return replayed(self.offer, self.terms, price_of_compute=self.price_of_compute, lot=self.lot)


def recorded_decision(row: Mapping[str, Any]) -> RecordedDecision | None:
    """What a row with `COLUMNS` says; None where an earlier version wrote it, which kept less."""
    if row["quality_floor"] is None:
        return None
    open_to = [member for member in orjson.loads(row["candidates"]) if member["excluded"] is None]
    return RecordedDecision(
        offer=Offer(
            arms=tuple([_arm(member) for member in open_to]),
            quality_floor=row["quality_floor"],
            is_curtailed=row["is_curtailed"],
        ),
        arms=tuple([member["arm"] for member in open_to]),
        chances=tuple([member["chance"] for member in open_to]),
        terms=PolicyTerms(
            metric=Metric(row["metric"]),
            price_of_compute=row["middle_price"],
            spread=row["spread"],
            exploration_share=row["exploration_share"],
        ),
        price_of_compute=row["price_of_compute"],
        lot=row["lot"],
    )


def _arm(member: Mapping[str, Any]) -> ArmOffer:
    return ArmOffer(
        success_probability=member["weighed"],
        expected=Spend(cost=member["cost"], engine_seconds=member["seconds"], full_share=member["full"]),
    )
