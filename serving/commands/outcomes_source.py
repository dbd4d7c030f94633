"""Outcomes of either kind as tables: collected ones, and files of pairs as the RouteLLM project's public ones.

A line of the first kind is one answer of one arm (`tierwise route collect`). One of the second is a prompt, what a weak
and a strong model made of it, and the set that it belongs to; each set is a table of its own, and weak and strong are
taken for the arms fast and full.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

_TEXTS: Final = ("set", "subject", "prompt")
_CORRECT: Final = ("weak_correct", "strong_correct")
_OF_PAIRS: Final = frozenset((*_CORRECT, "set", "subject"))


@dataclass(frozen=True, slots=True)
class Tables:
    """What a file holds."""

    by_name: dict[str, OutcomeTable]
    """By set; collected outcomes are one, named as the file is, without its ending."""
    data_sha256: str
    """Of the file, unpacked."""
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each arm's engine called its model, of collected outcomes."""
    remarks: tuple[str, ...] = ()
    """What a person should know of the file."""


def read_table(
    path: Path, *, selection: str | None = None, arms: Sequence[str] | None = None
) -> tuple[OutcomeTable, Origin]:
    """The only table in a file, or the one of the set `selection`, and where it came from.

    Raises:
        OutcomesFileError: as `read_tables`; or there are several sets, or several models under one arm's name.
    """
    tables = read_tables(path, only=selection, arms=arms)
    if len(tables.by_name) > 1:
        raise OutcomesFileError(
            f"{path}: holds several sets; take one with --set: {', '.join(sorted(tables.by_name))}"
        )
    for arm, names in tables.models.items():
        if len(names) > 1:  # they are outcomes of different things
            raise OutcomesFileError(
                f"{path}: the answers of {arm} come from several models ({', '.join(names)}); use a file for each"
            )
    (table,) = tables.by_name.values()
    models = {arm: names[0] for arm, names in tables.models.items() if arm in table.arms}
    return table, Origin(data_sha256=tables.data_sha256, models=models, selection=selection)


def read_tables(path: Path, *, only: str | None = None, arms: Sequence[str] | None = None) -> Tables:
    """The tables in a file, plain or `.gz`.

    Args:
        path: the file.
        only: of a file in sets, the set to take.
        arms: the columns, weakest first; where absent, all there are by their cost.

    Raises:
        OutcomesFileError: it cannot be read, holds no outcomes, or not what is asked for; the message names the line.
    """
    data = read_unpacked(path)
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
    if not lines:
        raise OutcomesFileError(
            f"{path}: no outcomes in it; `tierwise route collect --out FILE` collects some"
        )
    sha256, first = hashlib.sha256(data).hexdigest(), _members(path, *lines[0])
    if _OF_PAIRS & first.keys():
        return _of_pairs(path, [_pair(path, number, line) for number, line in lines], sha256, only, arms)
    if not {"arm", "success", "prompt_id"} & first.keys():
        raise OutcomesFileError(
            f"{path}: its first line is no outcome: neither an arm's (prompt_id, arm, success, …) nor a pair's "
            f"(set, subject, prompt, weak_correct, strong_correct)"
        )
    if only is not None:
        raise OutcomesFileError(f"{path}: collected outcomes are in no sets; leave --set out")
    return _of_rows(path, parse_outcomes(path, data.rstrip(b"\n") + b"\n"), sha256, arms)


def _of_rows(path: Path, rows: Sequence[OutcomeRow], sha256: str, arms: Sequence[str] | None) -> Tables:
    known = sorted({row.arm for row in rows})
    _refuse_missing(path, known, arms)
    prompts: dict[str, str] = {}
    for row in rows:
        if prompts.setdefault(row.prompt_id, row.prompt) != row.prompt:
            raise OutcomesFileError(f"{path}: the id {row.prompt_id!r} stands for two different prompts")
    if len(known) < 2:
        raise OutcomesFileError(f"{path}: outcomes of {known[0]} alone; there is nothing to choose between")
    name, remarks = path.name.partition(".")[0], []
    if repeated := len(rows) - len({row.key for row in rows}):
        remarks.append(
            f"{name}: {repeated} outcomes of a prompt and an arm are repeated; the last of each counts"
        )
    models = {arm: tuple(sorted({row.model for row in rows if row.arm == arm})) for arm in known}
    for arm, names in models.items():
        if len(names) > 1:
            remarks.append(f"{name}: the answers of {arm} come from several models ({', '.join(names)})")
    return Tables({name: table_of(rows, arms)}, sha256, models, tuple(remarks))


def _of_pairs(
    path: Path, records: Sequence[dict[str, Any]], sha256: str, only: str | None, arms: Sequence[str] | None
) -> Tables:
    names = list(dict.fromkeys(str(record["set"]) for record in records))
    if only is not None and only not in names:
        verb = "is" if len(names) == 1 else "are"
        raise OutcomesFileError(f"{path}: no set {only!r}; there {verb} {', '.join(names)}")
    by_name = {
        name: table_of_routellm([record for record in records if record["set"] == name])
        for name in names
        if only in (None, name)
    }
    remarks = []
    for name, table in by_name.items():
        _refuse_missing(path, table.arms, arms)
        if arms is not None and tuple(arms) != table.arms:
            raise OutcomesFileError(
                f"{path}: its arms are {', '.join(table.arms)}, weakest first; leave --arms out"
            )
        repeated = sum(number - 1 for number in Counter(table.prompts).values())
        if repeated:
            remarks.append(f"{name}: {repeated} prompts are repeated; they are never split between folds")
    return Tables(by_name, sha256, remarks=tuple(remarks))


def _refuse_missing(path: Path, known: Sequence[str], arms: Sequence[str] | None) -> None:
    if missing := [arm for arm in arms or () if arm not in known]:
        raise OutcomesFileError(f"{path}: no outcomes of arm {missing[0]!r}; there are {', '.join(known)}")


def _pair(path: Path, number: int, line: bytes) -> dict[str, Any]:
    record = _members(path, number, line)
    for name in (*_TEXTS, *_CORRECT):
        if name not in record:
            raise OutcomesFileError(f"{path}:{number}: no {name!r}")
    for name in _TEXTS:
        if not isinstance(record[name], str):
            raise OutcomesFileError(f"{path}:{number}: {name!r} is {record[name]!r}, which is no text")
    for name in _CORRECT:
        if record[name] not in (0, 1):
            raise OutcomesFileError(
                f"{path}:{number}: {name!r} is {record[name]!r}, which is neither true nor false"
            )
    for name in ("weak_words", "strong_words"):
        if not isinstance(record.get(name), int | float | None):
            raise OutcomesFileError(f"{path}:{number}: {name!r} is {record[name]!r}, which is no number")
    return record


def _members(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise OutcomesFileError(f"{path}:{number}: no JSON object: {error}") from None
    if not isinstance(members, dict):
        raise OutcomesFileError(f"{path}:{number}: no JSON object")
    return members
