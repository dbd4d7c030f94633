"""Every decision of the ledger made again from its record, to see that each comes out as it did.

Forecasts are in the record, whatever artifact made them, so none is looked for. How an arm follows from them is the
policy's: what another version of it decided is counted by that version, and not replayed by this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import Any, Final

from sqlalchemy import Connection, select

from router.decision import Reason
from router.policy import POLICY_VERSION
from serving.ledger.decided import ROWS_AT_ONCE, is_decided
from serving.ledger.recorded import COLUMNS, RecordedDecision, recorded_decision
from serving.ledger.tables import decisions

MAX_NAMED: Final = 20
"""Requests that came out otherwise, by their ids; more are only counted."""


@dataclass(slots=True, kw_only=True)
class Replay:
    """How the decisions of a span came out."""

    num_same: int = 0
    num_other: int = 0
    """Those that came out otherwise."""
    others: list[str] = field(default_factory=list)
    """The request ids of the first of them."""
    num_incomplete: int = 0
    """Those of which an earlier version kept too little."""
    by_other_policies: Counter[str] = field(default_factory=Counter)
    """Those that are not replayed, by the policy version that made them."""
    artifacts: Counter[str] = field(default_factory=Counter)
    """Those that were replayed, by the artifact whose forecasts they stand on."""


def replay(connection: Connection, since: float | None) -> Replay:
    """Make the decisions from `since` (Unix time) on again.

    Args:
        connection: to a ledger of schema 3.
        since: None for the ledger's whole span.
    """
    columns = (*COLUMNS, "request_id", "propensity", "policy_version", "artifact_version")
    query = select(*(decisions.c[name] for name in columns)).where(is_decided(since)).order_by(decisions.c.id)
    found = Replay()
    for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query).mappings():
        _replay_one(dict(row), found)
    return found


def _replay_one(row: Mapping[str, Any], found: Replay) -> None:
    if row["policy_version"] != POLICY_VERSION:
        found.by_other_policies[row["policy_version"]] += 1
        return
    recorded = recorded_decision(row)
    if recorded is None:
        found.num_incomplete += 1
        return
    found.artifacts[row["artifact_version"]] += 1
    if _is_same(recorded, row):
        found.num_same += 1
        return
    found.num_other += 1
    if len(found.others) < MAX_NAMED:
        found.others.append(row["request_id"])


def _is_same(recorded: RecordedDecision, row: Mapping[str, Any]) -> bool:
    """Arm and chances; of an escalation, the arm that it began with is known by its chance alone."""
    choice = recorded.replayed()
    is_arm_same = row["reason"] == Reason.ESCALATION or recorded.arms[choice.position] == row["arm"]
    # A database may give a number back with its last digits rounded.
    chances = zip(choice.chances, recorded.chances, strict=True)
    are_chances_same = all(isclose(made, kept, rel_tol=1e-9, abs_tol=1e-12) for made, kept in chances)
    return is_arm_same and are_chances_same and isclose(choice.chance, row["propensity"], rel_tol=1e-9)
