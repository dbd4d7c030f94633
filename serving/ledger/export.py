"""The ledger's decisions as plain records to take away: one a request, in order of time, in bounded memory.

What names a client stays in the ledger: its key's name and its session. A prompt is what a client wrote; what looks
like a credential in it, or in any other text, is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Select, select

from serving.ledger.credentials import mask_credentials
from serving.ledger.tables import SCHEMA_VERSION, decisions

SCHEMA: Final = SCHEMA_VERSION
"""The first whose rows have every member."""
PROMPT: Final = "prompt"
MEMBERS: Final = tuple(
    str(column.name) for column in decisions.columns if column.name not in {"id", "key", "session", PROMPT}
)
"""Of a record, as `DecisionRecord` has them; and `prompt`, where prompts are asked for."""

ROWS_AT_ONCE: Final = 1000
PROMPTS_AT_ONCE: Final = 16
"""A prompt may be as long as a request, 32 MiB as shipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which decisions; None, or nothing, is no limit."""

    since: float | None = None
    """Unix time of the first."""
    until: float | None = None
    """Unix time before which the last was made."""
    tiers: tuple[str, ...] = ()
    """One of these answered."""
    arms: tuple[str, ...] = ()
    """And one of these was chosen."""


def exported(
    connection: Connection, selection: Selection, *, with_prompts: bool
) -> Iterator[Mapping[str, Any]]:
    """The decisions as they are exported, `candidates` as the list that it is.

    Args:
        connection: to a ledger of `SCHEMA`.
        selection: which of them.
        with_prompts: whether a record has the member `prompt`, null where none was stored.
    """
    at_once = PROMPTS_AT_ONCE if with_prompts else ROWS_AT_ONCE
    wanted = query(selection, with_prompts=with_prompts)
    for row in connection.execution_options(yield_per=at_once).execute(wanted):
        record = dict(zip(_names(with_prompts), map(_shown, row), strict=True))
        record["candidates"] = orjson.loads(record["candidates"])
        yield record


def query(selection: Selection, *, with_prompts: bool) -> Select[Any]:
    """The rows, in the order of an index, so that no database has to sort them all first."""
    of = decisions.c
    made = select(*(of[name] for name in _names(with_prompts))).order_by(of.created_at, of.id)
    if selection.since is not None:
        made = made.where(of.created_at >= selection.since)
    if selection.until is not None:
        made = made.where(of.created_at < selection.until)
    if selection.tiers:
        made = made.where(of.tier.in_(selection.tiers))
    if selection.arms:
        made = made.where(of.arm.in_(selection.arms))
    return made


def _names(with_prompts: bool) -> tuple[str, ...]:
    return (*MEMBERS, PROMPT) if with_prompts else MEMBERS


def _shown(value: Any) -> Any:
    return mask_credentials(value) if isinstance(value, str) else value
