"""Records of one ordinary request, to be varied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from serving.ledger.records import AttemptRecord, DecisionRecord
from tests import ledger_records

DECISION = ledger_records.DECISION
ATTEMPT = ledger_records.ATTEMPT


@pytest.fixture
def make_decision() -> Callable[..., DecisionRecord]:
    """`make_decision(status=500)`: the ordinary decision, with changes."""

    def make(**changes: Any) -> DecisionRecord:
        return replace(DECISION, **changes)

    return make


@pytest.fixture
def make_attempt() -> Callable[..., AttemptRecord]:
    """`make_attempt(tier="full")`: the ordinary attempt, with changes."""

    def make(**changes: Any) -> AttemptRecord:
        return replace(ATTEMPT, **changes)

    return make
