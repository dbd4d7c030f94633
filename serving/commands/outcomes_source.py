"""Outcomes of either kind as a table: collected ones, and files like the RouteLLM project's public ones.

A line of the first kind is one answer of one arm (`tierwise route collect`). One of the second is a prompt with
`weak_correct` and `strong_correct`, and the `set` it belongs to; weak and strong are taken for the arms fast and full.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

import router
from router.artifact_fit import Origin
from router.outcome_table import OutcomeTable, table_of, table_of_routellm
from router.outcomes import OutcomeRow
from serving.commands.outcomes_file import OutcomesFileError, parse_outcomes, read_unpacked

RELEASED: Final = Path(router.__file__).parent / "data" / "released_outcomes.jsonl.gz"
"""Of the released tiers."""


def read_table(
    path: Path, *, selection: str | None = None, arms: Sequence[str] | None = None
) -> tuple[OutcomeTable, Origin]:
    """The table in a file, plain or `.gz`, and where it came from.

    Args:
        path: the file.
        selection: of a file in sets, the set to take.
        arms: the columns, weakest first; where absent, all there are by their cost.

    Raises:
        OutcomesFileError: it cannot be read, holds no outcomes, or none of what is asked for.
    """
    data = read_unpacked(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if not data.strip():
        raise OutcomesFileError(
            f"{path}: no outcomes in it; `tierwise route collect --out FILE` collects some"
        )
    if b'"weak_correct"' in data.split(b"\n", 1)[0]:
        return _of_pairs(path, data, selection, arms), Origin(data_sha256=sha256, selection=selection)
    if selection is not None:
        raise OutcomesFileError(f"{path}: collected outcomes are in no sets; leave --set out")
    rows = parse_outcomes(path, data)
    table = table_of(rows, arms)
    _refuse_missing(path, [row.arm for row in rows], arms)
    return table, Origin(data_sha256=sha256, models=_models(path, rows, table.arms))


def _of_pairs(path: Path, data: bytes, selection: str | None, arms: Sequence[str] | None) -> OutcomeTable:
    try:
        records: list[dict[str, Any]] = [orjson.loads(line) for line in data.splitlines() if line.strip()]
        sets = sorted({str(record.get("set")) for record in records})
        if selection is None and len(sets) > 1:
            raise OutcomesFileError(f"{path}: holds several sets; take one with --set: {', '.join(sets)}")
        chosen = [record for record in records if selection in (None, record.get("set"))]
        if not chosen:
            raise OutcomesFileError(f"{path}: no set {selection!r}; there are {', '.join(sets)}")
        table = table_of_routellm(chosen)
    except (ValueError, AttributeError) as error:
        raise OutcomesFileError(f"{path}: no outcomes: {error}") from None
    _refuse_missing(path, table.arms, arms)
    if arms is not None and tuple(arms) != table.arms:
        raise OutcomesFileError(f"{path}: its arms are {', '.join(table.arms)}; leave --arms out")
    return table


def _refuse_missing(path: Path, present: Sequence[str], arms: Sequence[str] | None) -> None:
    known = sorted(set(present))
    if missing := [arm for arm in arms or () if arm not in known]:
        raise OutcomesFileError(
            f"{path}: no outcomes of arm {missing[0]!r}; there are {', '.join(known)}. Collect them with "
            f"`tierwise route collect --arms {missing[0]}`"
        )


def _models(path: Path, rows: Sequence[OutcomeRow], arms: Sequence[str]) -> dict[str, str]:
    """What each arm's engine called its model.

    Raises:
        OutcomesFileError: an arm's outcomes are of several, which are outcomes of different things.
    """
    models = {arm: sorted({row.model for row in rows if row.arm == arm}) for arm in arms}
    for arm, names in models.items():
        if len(names) > 1:
            raise OutcomesFileError(
                f"{path}: the answers of {arm} come from several models ({', '.join(names)}); use a file for each"
            )
    return {arm: names[0] for arm, names in models.items()}
