"""Tests of serving.ledger.export."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from serving.ledger.database import LedgerDatabase, ledger_url
from serving.ledger.export import SCHEMA, Selection, exported, query
from serving.ledger.query import open_for_reading
from serving.ledger.records import DecisionRecord
from serving.ledger.tables import decision_row

MakeDecision = Callable[..., DecisionRecord]
EVERYTHING = Selection()


def write(home: Path, decided: list[DecisionRecord]) -> None:
    database = LedgerDatabase(ledger_url(None, home))
    database.write(1, decision_rows=[decision_row(record) for record in decided])
    database.close()


def read(
    home: Path, selection: Selection = EVERYTHING, *, with_prompts: bool = False
) -> list[dict[str, Any]]:
    with open_for_reading(ledger_url(None, home), at_least=SCHEMA) as connection:
        return [dict(record) for record in exported(connection, selection, with_prompts=with_prompts)]


def test_a_record_is_the_decision_without_who_asked(tmp_path: Path, make_decision: MakeDecision) -> None:
    """Member for member, but for key, session and prompt; the candidates are a list."""
    decision = make_decision(
        key="app", session="s", prompt="What is rain?", candidates='[{"arm": "fast", "excluded": null}]'
    )
    write(tmp_path, [decision])
    [record] = read(tmp_path)
    expected = {name: getattr(decision, name) for name in DecisionRecord.__dataclass_fields__}
    for name in ("key", "session", "prompt"):
        del expected[name]
    assert record == expected | {"candidates": [{"arm": "fast", "excluded": None}]}
    [with_prompt] = read(tmp_path, with_prompts=True)
    assert with_prompt == record | {"prompt": "What is rain?"}


def test_what_looks_like_a_credential_is_masked(tmp_path: Path, make_decision: MakeDecision) -> None:
    """In prompts, where clients paste them, and in ids, which clients may choose."""
    key = "sk-proj-abcdefghijklmnop1234"
    write(tmp_path, [make_decision(request_id=key, prompt=f"why does {key} not work?")])
    [record] = read(tmp_path, with_prompts=True)
    assert (record["request_id"], record["prompt"]) == ("[secret]", "why does [secret] not work?")


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(), "abcd"),
        (Selection(since=20.0), "bcd"),
        (Selection(until=20.0), "a"),
        (Selection(since=20.0, until=30.0), "bc"),
        (Selection(tiers=("full",)), "c"),
        (Selection(tiers=("fast", "full")), "abc"),
        (Selection(arms=("fast-high",)), "b"),
        (Selection(tiers=("full",), arms=("fast-high",)), ""),
    ],
)
def test_a_selection_is_a_span_and_names(
    tmp_path: Path, make_decision: MakeDecision, selection: Selection, ids: str
) -> None:
    """From `since` on and before `until`, of any tier and arm that is named; in order of time, then of writing."""
    write(
        tmp_path,
        [
            make_decision(request_id="d", created_at=30.0, arm=None, tier=None),
            make_decision(request_id="a", created_at=10.0),
            make_decision(request_id="b", created_at=20.0, arm="fast-high"),
            make_decision(request_id="c", created_at=20.0, arm="full", tier="full"),
        ],
    )
    assert "".join(record["request_id"] for record in read(tmp_path, selection)) == ids


def test_nothing_is_sorted(tmp_path: Path, make_decision: MakeDecision) -> None:
    """SQLite gives the rows in the order of its index; sorting them would hold them all."""
    write(tmp_path, [make_decision()])
    with open_for_reading(ledger_url(None, tmp_path)) as connection:
        for selection in (Selection(), Selection(since=1.0, until=2.0, tiers=("fast",), arms=("fast",))):
            asked = query(selection, with_prompts=True).compile(
                dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
            )
            plan = str(connection.execute(text(f"EXPLAIN QUERY PLAN {asked}")).all())
            assert "ix_decisions_created_at" in plan
            assert "TEMP B-TREE" not in plan


def test_memory_is_bounded(tmp_path: Path, make_decision: MakeDecision) -> None:
    """A few prompts at a time, however many there are."""
    num_prompts, num_chars = 200, 100_000
    write(tmp_path, [make_decision(prompt="x" * num_chars) for _ in range(num_prompts)])
    with open_for_reading(ledger_url(None, tmp_path), at_least=SCHEMA) as connection:
        tracemalloc.start()
        read_prompts = sum(1 for _ in exported(connection, Selection(), with_prompts=True))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert read_prompts == num_prompts
    assert peak < num_prompts * num_chars / 3
