"""Outcomes to evaluate on: collected ones, or a file of pairs as the RouteLLM project's public ones are.

A line of the first kind is one answer of one arm (`tierwise route collect`). One of the second is a prompt, what a weak
and a strong model made of it, and the set that it belongs to; each set is a table of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from router.outcome_table import OutcomeTable, table_of, table_of_routellm
from router.outcomes import OutcomeRow
from serving.commands.outcomes_file import OutcomesFileError, parse_outcomes, read_unpacked

_TEXTS: Final = ("set", "subject", "prompt")
_CORRECT: Final = ("weak_correct", "strong_correct")
_OF_PAIRS: Final = frozenset((*_CORRECT, "set", "subject"))


@dataclass(frozen=True, slots=True)
class Tables:
    """What a file holds."""

    by_name: dict[str, OutcomeTable]
    """By set; collected outcomes are one, named as the file is, without its ending."""
    remarks: tuple[str, ...] = ()
    """What a person should know of the file."""


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
    first = _members(path, *lines[0])
    if _OF_PAIRS & first.keys():
        tables = _of_pairs(path, [_pair(path, number, line) for number, line in lines])
    elif {"arm", "success", "prompt_id"} & first.keys():
        tables = _of_rows(path, parse_outcomes(path, data.rstrip(b"\n") + b"\n"), arms)
    else:
        raise OutcomesFileError(
            f"{path}: its first line is no outcome: neither an arm's (prompt_id, arm, success, …) nor a pair's "
            f"(set, subject, prompt, weak_correct, strong_correct)"
        )
    for table in tables.by_name.values():
        if missing := [arm for arm in arms or () if arm not in table.arms]:
            raise OutcomesFileError(
                f"{path}: no outcomes of arm {missing[0]!r}; there are {', '.join(table.arms)}"
            )
        if arms is not None and tuple(arms) != table.arms:
            raise OutcomesFileError(
                f"{path}: its arms are {', '.join(table.arms)}, weakest first; leave --arms out"
            )
    return tables if only is None else _only(path, tables, only)


def _only(path: Path, tables: Tables, name: str) -> Tables:
    if name not in tables.by_name:
        raise OutcomesFileError(f"{path}: no set {name!r}; there is {', '.join(tables.by_name)}")
    return Tables(
        {name: tables.by_name[name]},
        tuple(remark for remark in tables.remarks if remark.startswith(f"{name}: ")),
    )


def _of_rows(path: Path, rows: Sequence[OutcomeRow], arms: Sequence[str] | None) -> Tables:
    known = sorted({row.arm for row in rows})
    if missing := [arm for arm in arms or () if arm not in known]:
        raise OutcomesFileError(f"{path}: no outcomes of arm {missing[0]!r}; there are {', '.join(known)}")
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
    for arm in known:
        if len(models := sorted({row.model for row in rows if row.arm == arm})) > 1:
            remarks.append(f"{name}: the answers of {arm} come from several models ({', '.join(models)})")
    return Tables({name: table_of(rows, arms)}, tuple(remarks))


def _of_pairs(path: Path, records: Sequence[dict[str, Any]]) -> Tables:
    names = list(dict.fromkeys(str(record["set"]) for record in records))
    by_name = {
        name: table_of_routellm([record for record in records if record["set"] == name]) for name in names
    }
    remarks = []
    for name, table in by_name.items():
        repeated = sum(number - 1 for number in Counter(table.prompts).values())
        if repeated:
            remarks.append(f"{name}: {repeated} prompts are repeated; they are never split between folds")
    return Tables(by_name, tuple(remarks))


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
