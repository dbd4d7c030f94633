"""What a refit would ask and how long that would take, by the pace of outcomes that were collected before."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.outcomes import OutcomeRow
from router.prompts import Item
from serving.commands.outcomes_file import read_outcomes
from serving.commands.outcomes_source import RELEASED
from serving.commands.route_collect_run import missing

MAX_PAUSE_S: Final = 30.0
"""Between two answers; what was longer was a collection that stood still."""
LEAST_ROWS: Final = 40
"""To tell a pace by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be asked."""

    num_prompts: int
    num_answers: int
    num_missing: int
    pace_s: float
    """Seconds an answer, with as many at a time as there were."""
    basis: str
    """Where the pace is from."""

    @property
    def asking_s(self) -> float:
        """How long the asking would take."""
        return self.num_missing * self.pace_s


def plan(items: Sequence[Item], arms: Sequence[str], outcomes: Path, earlier: Sequence[Path]) -> Plan:
    """What is missing in the file, at its own pace, else at that of the first earlier file that tells one.

    Raises:
        OutcomesFileError: one of them cannot be read.
    """
    rows = read_outcomes(outcomes) if outcomes.exists() else []
    pace_s, basis = pace(rows), "of this file's own answers"
    for path in earlier:
        if pace_s is None and path != outcomes:
            pace_s, basis = pace(read_outcomes(path)), f"of {path}"
    if pace_s is None:
        pace_s, basis = (
            pace(read_outcomes(RELEASED)),
            "of the released tiers on the machine that they were asked on",
        )
    assert pace_s is not None, "the released outcomes are enough to tell one"
    return Plan(
        num_prompts=len(items),
        num_answers=len(items) * len(arms),
        num_missing=len(missing(items, arms, rows)),
        pace_s=pace_s,
        basis=basis,
    )


def pace(rows: Sequence[OutcomeRow]) -> float | None:
    """Seconds from one answer to the next, pauses left out; None of too few."""
    if len(rows) < LEAST_ROWS:
        return None
    times = sorted(row.created_at for row in rows)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    running = [gap for gap in gaps if gap <= MAX_PAUSE_S]
    return sum(running) / len(running) if running else None
