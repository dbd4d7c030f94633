"""A ledger of made-up requests whose truth is known, as a gateway with an exploration share would have written it.

A request's difficulty h is uniform in [0, 1]. The full arm succeeds with probability 1 − 0.2·h and the fast one with
1 − 0.8·h, which is forecast too low by 0.1. Full is forecast to cost 5 and fast 1, and they take four fifths of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson

from router.offer import ArmOffer, Metric, Offer, Spend
from router.policy import POLICY_VERSION
from router.pricing import Pricing
from router.propensity import PolicyTerms
from router.replay import replayed
from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.records import DecisionRecord, FeedbackRecord
from serving.ledger.tables import decision_row, feedback_row
from tests.ledger_records import DECISION

ARMS = ("full", "fast")
COSTS = (5.0, 1.0)
COST_FACTOR = 0.8
"""Real over forecast cost."""
BEGAN = 1_000_000.0
TERMS = PolicyTerms(metric=Metric.FULL_SHARE, price_of_compute=0.46, spread=0.1, exploration_share=0.2)
"""Those of the gateway: 0.4 of requests go to full by the rule, and half of those that the lot decides."""


def success_at(full_share: float) -> float:
    """The truth: what succeeds where the hardest requests, so many of them, go to full.

    1 − 0.8·∫h up to the border − 0.2·∫h beyond it, with the border at 1 − full_share.
    """
    return 0.9 - 0.3 * (1 - full_share) ** 2


def cost_at(full_share: float) -> float:
    """The truth: what a request costs there."""
    return COST_FACTOR * (1 + 4 * full_share)


def record(number: int, h: float, uniforms: tuple[float, float], terms: PolicyTerms) -> DecisionRecord:
    """One request as it was decided; the first uniform draws its λ and the second is its lot."""
    offer = Offer(
        arms=tuple(
            ArmOffer(
                success_probability=p,
                expected=Spend(cost=cost, engine_seconds=cost / 10, full_share=float(name == "full")),
            )
            for name, p, cost in zip(ARMS, (1 - 0.2 * h, max(0.0, 0.9 - 0.8 * h)), COSTS, strict=True)
        )
    )
    pricing = Pricing(price_of_compute=terms.price_of_compute, metric=terms.metric, spread=terms.spread)
    price = pricing.drawn(uniforms[0])
    choice = replayed(offer, terms, price_of_compute=price, lot=uniforms[1])
    arm = ARMS[choice.position]
    candidates = [
        {
            "arm": name,
            "p": one.success_probability,
            "weighed": one.success_probability,
            "cost": one.expected.cost,
            "seconds": one.expected.engine_seconds,
            "full": one.expected.full_share,
            "excluded": None,
            "chance": chance,
        }
        for name, one, chance in zip(ARMS, offer.arms, choice.chances, strict=True)
    ]
    return replace(
        DECISION,
        request_id=f"r{number}",
        created_at=BEGAN + number,
        arm=arm,
        tier=arm,
        success_probability=offer.arms[choice.position].success_probability,
        metric=terms.metric.value,
        price_of_compute=price,
        propensity=choice.chance,
        middle_price=terms.price_of_compute,
        spread=terms.spread,
        exploration_share=terms.exploration_share,
        lot=uniforms[1],
        policy_version=POLICY_VERSION,
        candidates=orjson.dumps(candidates).decode(),
        cost=COST_FACTOR * COSTS[choice.position],
        engine_seconds=COSTS[choice.position] / 10,
        full_share=float(arm == "full"),
    )


def grade(decision: DecisionRecord, score: float, *, arm: str | None = None) -> FeedbackRecord:
    """What a client says of an answer."""
    return FeedbackRecord(
        request_id=decision.request_id,
        recorded_at=decision.created_at + 1,
        key=None,
        source="client",
        score=score,
        arm=arm or str(decision.arm),
        tier=arm or str(decision.tier),
        success_probability=0.5,
        propensity=0.5,
        artifact_version="a",
    )


def write(
    home: Path,
    num: int,
    *,
    terms: PolicyTerms = TERMS,
    graded_share: float = 1.0,
    seed: int = 0,
) -> list[DecisionRecord]:
    """Write a ledger of `num` requests, one a second, into `home`; what was decided."""
    rng = np.random.default_rng(seed)
    decided, grades = [], []
    for number in range(num):
        h, price, lot, luck, known = (float(uniform) for uniform in rng.random(5))
        decision = record(number, h, (price, lot), terms)
        decided.append(decision)
        if known < graded_share:
            truth = 1 - h * (0.2 if decision.arm == "full" else 0.8)
            grades.append(grade(decision, float(luck < truth)))
    write_rows(home, decided, grades)
    return decided


def write_rows(home: Path, decided: list[DecisionRecord], grades: list[FeedbackRecord]) -> None:
    """Write these records into the ledger of `home`."""
    database = LedgerDatabase(ledger_url(None, home))
    database.write(
        1,
        decision_rows=[decision_row(one) for one in decided],
        feedback_rows=[feedback_row(one) for one in grades],
    )
    database.close()
